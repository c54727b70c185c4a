// Durations of the config in seconds.
#pragma once

#include "common/base/clock.h"

namespace gimbal::base {

// Of a google.protobuf.Duration.
template <typename Duration>
Seconds SecondsOf(const Duration& duration) {
  return Seconds(static_cast<double>(duration.seconds()) +
                 1e-9 * static_cast<double>(duration.nanos()));
}

}  // namespace gimbal::base

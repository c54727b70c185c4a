// Told of every call that a service has answered: `method` as in the service,
// and the time from the call's arrival to its answer.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace gimbal::rpc {

using CallObserver = std::function<void(
    const char* method, const absl::Status& status, base::Seconds taken)>;

}  // namespace gimbal::rpc

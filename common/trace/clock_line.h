// The offset of one clock to another as a line over time, from samples. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "common/trace/clock.h"

namespace gimbal::trace {

struct ClockLine {
  int64_t at_ns = 0;      // on the process's own clock
  int64_t offset_ns = 0;  // at that moment
  double drift = 0;       // seconds of offset per second
  // Of the better of the samples it follows from; negative: there was none.
  int64_t uncertainty_ns = -1;

  int64_t OffsetAt(int64_t ns) const {
    return offset_ns +
           static_cast<int64_t>(drift * static_cast<double>(ns - at_ns));
  }
};

// The offset of the sample that knows best. A drift only when the best samples
// of the first and of the last third cannot both be true without one: noise in
// it would tear apart what a constant keeps together.
ClockLine FitClock(std::span<const ClockSample> samples);

}  // namespace gimbal::trace

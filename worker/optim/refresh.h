// When a uniform period refreshes the bases: a pure function of the update.
#pragma once

#include <cstdint>

namespace gimbal::worker {

// True at update 1 (the cold start) and at every multiple of `period`.
// Requires update >= 1 and period >= 1.
constexpr bool RefreshDue(int64_t update, int period) {
  return update == 1 || update % period == 0;
}

}  // namespace gimbal::worker

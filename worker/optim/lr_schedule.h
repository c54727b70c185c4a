// Learning rate as a pure function of the update number.
#pragma once

#include <cstdint>

namespace gimbal::worker {

enum class LrKind { kConstant, kCosine, kWsd };

struct LrSpec {
  LrKind kind = LrKind::kCosine;
  double peak = 1e-3;
  int64_t warmup = 0;  // updates of linear warm-up: update t gets t / warmup
  int64_t steps = 0;   // of the whole run
  double min_ratio = 0.1;       // last value over the peak (cosine, wsd)
  double decay_fraction = 0.2;  // wsd: last share of the run, linear decay
};

// Learning rate of update t, 1 <= t <= steps. The first update after the
// warm-up has the peak, update `steps` has peak * min_ratio.
double LearningRate(const LrSpec& spec, int64_t update);

}  // namespace gimbal::worker

#include "worker/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gimbal::worker {
namespace {

// Share of the way from update `from` to update `to`, within [0, 1].
double Progress(int64_t update, int64_t from, int64_t to) {
  if (update <= from || to <= from) return 0;
  return std::min(
      1.0, static_cast<double>(update - from) / static_cast<double>(to - from));
}

// Share of the peak between the warm-up and the end: 1 falling to min_ratio.
double Factor(const LrSpec& spec, int64_t update) {
  const int64_t plateau = spec.warmup + 1;  // first update with the peak
  switch (spec.kind) {
    case LrKind::kConstant:
      return 1;
    case LrKind::kCosine: {
      const double p = Progress(update, plateau, spec.steps);
      const double share = 0.5 * (1 + std::cos(std::numbers::pi * p));
      return spec.min_ratio + (1 - spec.min_ratio) * share;
    }
    case LrKind::kWsd: {
      const auto decay = static_cast<int64_t>(
          std::llround(spec.decay_fraction * static_cast<double>(spec.steps)));
      const int64_t last_stable = std::max(plateau, spec.steps - decay);
      return 1 -
             (1 - spec.min_ratio) * Progress(update, last_stable, spec.steps);
    }
  }
  return 1;
}

}  // namespace

double LearningRate(const LrSpec& spec, int64_t update) {
  if (update <= spec.warmup) {
    return spec.peak * static_cast<double>(update) /
           static_cast<double>(spec.warmup);
  }
  return spec.peak * Factor(spec, update);
}

}  // namespace gimbal::worker

#include "worker/optim/mitigation.h"

#include <algorithm>
#include <cmath>

namespace gimbal::worker {

StageLr LrOfStage(const MitigationSpec& spec, int64_t delay, int64_t update,
                  double lr) {
  if (delay == 0) return {.lr = lr};
  const auto tau = static_cast<double>(delay);
  StageLr stage{.lr = lr};
  if (spec.lr_discount_updates > 0) {
    const double progress =
        std::min(1.0, static_cast<double>(update) /
                          static_cast<double>(spec.lr_discount_updates));
    stage.lr /= std::pow(tau, 1 - progress);
  }
  if (spec.lr_linear) {
    stage.lr *= std::max(spec.lr_floor, 1 - spec.lr_slope * tau);
    stage.matrix_factor = spec.lr_matrix_factor;
  }
  return stage;
}

double Beta1OfStage(const MitigationSpec& spec, int64_t delay, double beta1) {
  if (delay == 0 || !spec.beta1_by_delay) return beta1;
  return 0.9 + 0.1 * std::exp(-static_cast<double>(delay) / 20);
}

}  // namespace gimbal::worker

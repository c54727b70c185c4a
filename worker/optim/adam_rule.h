// Coefficients of the Adam family at one update: pure in its arguments; what it
// caches shows in no number. Not thread-safe.
//
// With momentum mu_t = b1 (1 - 0.5 * 0.96^(0.004 t)) (NAdam, torch's default
// momentum_decay), d = sqrt(v / (1-b2^t)) + eps:
//   plain      lr / (1-b1^t) m / d
//   nesterov   lr mu_{t+1} / (1 - prod_{i<=t+1} mu_i) m / d
//              + lr (1-mu_t) / (1 - prod_{i<=t} mu_i) g / d
// t counts from the last time the moments were cleared.
#pragma once

#include <cstdint>

#include "worker/optim/kernels.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {

// The moments start from zero at this update (not at update 1, where they are
// zero anyway).
bool MomentsReset(const OptimizerSpec& spec, int64_t update);

class AdamRule {
 public:
  explicit AdamRule(const OptimizerSpec& spec) : spec_(spec) {}

  // lr: of the parameters the rule is applied to.
  const AdamWRule& At(int64_t update, double lr, double scale);

  // In the rotated space: the rule of the direction, and the factor with which
  // it is applied. The paper's eps stands beside the root without bias
  // correction, so the plain form corrects the root in that factor; the
  // nesterov form corrects it where Adam does.
  struct Rotated {
    AdamWRule direction;
    double step = 0;
  };
  Rotated RotatedAt(int64_t update, double lr);

  // The term of update `update` + ahead in a prediction (optimizer.h): the
  // momentum has then decayed to b1^ahead of what it is.
  PredictionTerm Ahead(int64_t update, int64_t ahead, double lr) const;

  const OptimizerSpec& spec() const { return spec_; }

 private:
  AdamWRule Make(int64_t update, double lr, double scale);
  // Updates since the moments were last cleared.
  int64_t Age(int64_t update) const;
  double Product(int64_t age);

  const OptimizerSpec spec_;
  int64_t product_age_ = 0;
  double product_ = 1;  // of mu_1 ... mu_{product_age_}
  // The last answer: most parameters of a stage ask the same.
  int64_t last_update_ = 0;
  double last_lr_ = 0, last_scale_ = 0;
  AdamWRule last_;
};

}  // namespace gimbal::worker

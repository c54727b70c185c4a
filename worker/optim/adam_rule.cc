#include "worker/optim/adam_rule.h"

#include <cmath>

namespace gimbal::worker {
namespace {

constexpr double kMomentumDecay = 0.004;

double Mu(double beta1, int64_t age) {
  return beta1 *
         (1 - 0.5 * std::pow(0.96, static_cast<double>(age) * kMomentumDecay));
}

}  // namespace

bool MomentsReset(const OptimizerSpec& spec, int64_t update) {
  return spec.moment_reset > 0 && update > 1 &&
         (update - 1) % spec.moment_reset == 0;
}

int64_t AdamRule::Age(int64_t update) const {
  return spec_.moment_reset > 0 ? (update - 1) % spec_.moment_reset + 1
                                : update;
}

// Multiplied up in the same order whenever it is asked for, so a run that is
// taken up again has the same bits.
double AdamRule::Product(int64_t age) {
  if (age < product_age_) {
    product_age_ = 0;
    product_ = 1;
  }
  while (product_age_ < age) product_ *= Mu(spec_.beta1, ++product_age_);
  return product_;
}

const AdamWRule& AdamRule::At(int64_t update, double lr, double scale) {
  if (update != last_update_ || lr != last_lr_ || scale != last_scale_) {
    last_ = Make(update, lr, scale);
    last_update_ = update;
    last_lr_ = lr;
    last_scale_ = scale;
  }
  return last_;
}

AdamWRule AdamRule::Make(int64_t update, double lr, double scale) {
  const int64_t age = Age(update);
  const auto t = static_cast<double>(age);
  AdamWRule rule{.moments = {spec_.beta1, spec_.beta2, spec_.eps},
                 .grad_scale = scale,
                 .keep = 1 - lr * spec_.weight_decay,
                 .root_correction = std::sqrt(1 - std::pow(spec_.beta2, t))};
  if (spec_.nesterov) {
    const double product = Product(age);
    const double next = Mu(spec_.beta1, age + 1);
    rule.moment_step = lr * next / (1 - product * next);
    rule.gradient_step = lr * (1 - Mu(spec_.beta1, age)) / (1 - product);
  } else {
    rule.moment_step = lr / (1 - std::pow(spec_.beta1, t));
  }
  return rule;
}

AdamRule::Rotated AdamRule::RotatedAt(int64_t update, double lr) {
  if (spec_.nesterov) {
    AdamWRule rule = Make(update, 1, 1);
    rule.keep = 1 - lr * spec_.weight_decay;
    return {.direction = rule, .step = lr};
  }
  AdamWRule rule = Make(update, lr, 1);
  const double step = rule.moment_step * rule.root_correction;
  rule.moment_step = 1;
  rule.root_correction = 1;
  return {.direction = rule, .step = step};
}

PredictionTerm AdamRule::Ahead(int64_t update, int64_t ahead, double lr) const {
  const auto t = static_cast<double>(Age(update) + ahead);
  return {.step = lr * std::pow(spec_.beta1, static_cast<double>(ahead)) /
                  (1 - std::pow(spec_.beta1, t)),
          .root_factor = 1 / std::sqrt(1 - std::pow(spec_.beta2, t))};
}

}  // namespace gimbal::worker

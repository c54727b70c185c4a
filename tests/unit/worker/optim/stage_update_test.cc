// What each mitigation does to an update, against the formula written down
// plainly.
#include "worker/optim/stage_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/worker/optim/optim_test_util.h"

namespace gimbal::worker {
namespace {

constexpr int64_t kDelay = 3;

class StageUpdateTest : public ::testing::Test {
 protected:
  StageUpdateSpec Spec(OptimizerKind kind, MitigationSpec mitigation) const {
    return {.optimizer = {.kind = kind},
            .lr = {.kind = LrKind::kConstant, .peak = 0.01, .steps = 100},
            .mitigation = mitigation,
            .delay = kDelay};
  }

  // Applies update t to `weights`; the new ones.
  std::vector<float> Apply(StageUpdate& update, int64_t t,
                           const std::vector<float>& weights,
                           const float* then = nullptr,
                           float* predicted = nullptr) const {
    auto grads = RandomGradient<float>(table_, t);
    std::vector<float> next(weights.size());
    update.Apply({.update = t,
                  .square_sum = 1,
                  .refresh = t % 2 == 0,
                  .old_weights = weights.data(),
                  .new_weights = next.data(),
                  .grads = grads.data(),
                  .then = then,
                  .predicted = predicted});
    return next;
  }

  // An update without mitigation from the same weights, of an optimizer that
  // saw the same gradients.
  std::vector<float> Plain(Optimizer<float>& optimizer, int64_t t,
                           const std::vector<float>& weights) const {
    const auto grads = RandomGradient<float>(table_, t);
    std::vector<float> next(weights.size());
    optimizer.Step({.update = t, .lr = 0.01, .refresh = t % 2 == 0},
                   weights.data(), grads.data(), next.data());
    return next;
  }

  const ParameterTable table_ = SmallTable(8, 12);
};

TEST_F(StageUpdateTest, ErrorFeedbackAppliesTwiceTheUpdateMinusTheLast) {
  StageUpdate update(
      Spec(OptimizerKind::kBasisRotation, {.error_feedback = true}), table_);
  Optimizer<float> plain({.kind = OptimizerKind::kBasisRotation}, table_);
  auto weights = RandomWeights<float>(table_);
  std::vector<float> previous(weights.size());
  for (int64_t t = 1; t <= 6; ++t) {
    const auto next = Apply(update, t, weights);
    const auto proposed = Plain(plain, t, weights);
    for (size_t i = 0; i < weights.size(); ++i) {
      const float u = proposed[i] - weights[i];
      ASSERT_NEAR(next[i], weights[i] + 2 * u - previous[i], 1e-6) << t;
      previous[i] = u;
    }
    weights = next;
  }
}

// Adam's moments only decay, so its future is known in closed form.
TEST_F(StageUpdateTest, PredictionFollowsAdamsOwnDirection) {
  StageUpdate update(Spec(OptimizerKind::kAdamW, {.weight_prediction = true}),
                     table_);
  auto weights = RandomWeights<float>(table_);
  std::vector<float> predicted(weights.size());
  std::vector<double> m(weights.size()), v(weights.size());
  for (int64_t t = 1; t <= 5; ++t) {
    weights = Apply(update, t, weights, nullptr, predicted.data());
    const auto grads = RandomGradient<float>(table_, t);
    for (size_t i = 0; i < weights.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * grads[i];
      v[i] = 0.999 * v[i] + 0.001 * grads[i] * grads[i];
      double expected = weights[i];
      for (int64_t ahead = 1; ahead <= kDelay; ++ahead) {
        const auto s = static_cast<double>(t + ahead);
        expected -= 0.01 / (1 - std::pow(0.9, s)) *
                    std::pow(0.9, static_cast<double>(ahead)) * m[i] /
                    (std::sqrt(v[i] / (1 - std::pow(0.999, s))) + 1e-8);
      }
      ASSERT_NEAR(predicted[i], expected, 1e-6) << t;
    }
  }
}

// With a constant gradient the momentum is in its limit, and the prediction is
// where plain steps lead, up to the decay of the momentum it assumes.
TEST_F(StageUpdateTest, PredictionsPointWhereTheWeightsGo) {
  for (const OptimizerKind kind : {OptimizerKind::kBasisRotation,
                                   OptimizerKind::kMuon, OptimizerKind::kSgd}) {
    StageUpdateSpec spec = Spec(kind, {.weight_prediction = true});
    spec.optimizer.weight_decay = 0;
    StageUpdate update(spec, table_);
    auto weights = RandomWeights<float>(table_);
    std::vector<float> predicted(weights.size());
    std::vector<std::vector<float>> history, predictions;
    for (int64_t t = 1; t <= 40; ++t) {
      auto grads = RandomGradient<float>(table_, 1);
      std::vector<float> next(weights.size());
      update.Apply({.update = t,
                    .square_sum = 1,
                    .old_weights = weights.data(),
                    .new_weights = next.data(),
                    .grads = grads.data(),
                    .predicted = predicted.data()});
      weights = next;
      history.push_back(weights);
      predictions.push_back(predicted);
    }
    const Param& p = table_.at("h.0.mlp.fc.weight");
    double dot = 0, real = 0, foreseen = 0;
    for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
      const double a = history[39][i] - history[39 - kDelay][i];
      const double b = predictions[39 - kDelay][i] - history[39 - kDelay][i];
      dot += a * b;
      real += a * a;
      foreseen += b * b;
    }
    EXPECT_GT(dot / std::sqrt(real * foreseen), 0.99);
    EXPECT_NEAR(std::sqrt(foreseen / real), 1, 0.25);
  }
}

TEST_F(StageUpdateTest, CompensationChangesTheGradientByItsSquare) {
  StageUpdate update(Spec(OptimizerKind::kSgd, {.compensation = 0.5}), table_);
  const auto now = RandomWeights<float>(table_);
  std::vector<float> then = now;
  for (float& w : then) w += 0.25f;
  const auto next = Apply(update, 1, now, then.data());
  const auto grads = RandomGradient<float>(table_, 1);
  for (const Param& p : table_.params()) {
    for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
      const double g =
          grads[i] + 0.5 * grads[i] * grads[i] * (now[i] - then[i]);
      ASSERT_NEAR(next[i], now[i] * (1 - 0.01 * 0.01) - 0.01 * g, 1e-6);
    }
  }
}

TEST_F(StageUpdateTest, CorrectionLooksBackAlongTheAverageChange) {
  StageUpdate update(Spec(OptimizerKind::kAdamW, {.discrepancy_decay = 0.135}),
                     table_);
  auto weights = RandomWeights<float>(table_);
  std::vector<double> d(weights.size());
  const double decay = std::pow(0.135, 1.0 / kDelay);
  for (int64_t t = 1; t <= 5; ++t) {
    const auto next = Apply(update, t, weights);
    std::vector<float> backward(weights.size());
    update.FillBackwardWeights(next.data(), backward.data());
    for (size_t i = 0; i < weights.size(); ++i) {
      d[i] = decay * d[i] + (1 - decay) * (next[i] - weights[i]);
      ASSERT_NEAR(backward[i], next[i] - kDelay * d[i], 1e-6);
    }
    weights = next;
  }
}

}  // namespace
}  // namespace gimbal::worker

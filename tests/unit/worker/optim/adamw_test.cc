#include "worker/optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/worker/optim/optim_test_util.h"

namespace gimbal::worker {
namespace {

TEST(AdamW, FollowsTheFormulaOnEveryParameter) {
  const ParameterTable table = SmallTable(4, 6);
  const OptimizerSpec spec{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6};
  Optimizer<double> optimizer(spec, table);
  auto weights = RandomWeights<double>(table);
  auto expected = weights;
  std::vector<double> m(table.size()), v(table.size());
  for (int t = 1; t <= 20; ++t) {
    const double lr = 0.01 / t, scale = 1.0 / t;
    const auto grads = RandomGradient<double>(table, t);
    optimizer.Step({.update = t, .lr = lr, .scale = scale}, weights.data(),
                   grads.data(), weights.data());
    for (int64_t i = 0; i < table.size(); ++i) {
      const double g = scale * grads[i];
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      const double root = std::sqrt(v[i] / (1 - std::pow(0.95, t)));
      expected[i] -= lr * spec.weight_decay * expected[i] +
                     lr * m[i] / (1 - std::pow(0.8, t)) / (root + 1e-6);
    }
  }
  for (int64_t i = 0; i < table.size(); ++i) {
    EXPECT_NEAR(weights[i], expected[i], 1e-14);
  }
}

TEST(AdamW, WritesNothingIntoThePadding) {
  const ParameterTable table = SmallTable(3, 5);
  Optimizer<float> optimizer({}, table);
  const std::vector<float> ones(table.size(), 1);
  std::vector<float> weights(table.size(), 1);
  optimizer.Step({.update = 1, .lr = 0.1}, ones.data(), ones.data(),
                 weights.data());
  int64_t changed = 0;
  for (float w : weights) changed += w != 1;
  EXPECT_EQ(changed, table.parameter_count());
}

TEST(AdamW, StateIsTwoMomentsPerParameter) {
  const ParameterTable table = SmallTable(3, 5);
  Optimizer<float> optimizer({}, table);
  const auto state = optimizer.State();
  ASSERT_EQ(state.size(), 2 * table.params().size());
  EXPECT_EQ(state[0].name, "wte.m");
  EXPECT_EQ(state[1].name, "wte.v");
  for (size_t i = 0; i < table.params().size(); ++i) {
    for (size_t j : {2 * i, 2 * i + 1}) {
      EXPECT_EQ(state[j].layer, table.params()[i].layer);
      EXPECT_EQ(state[j].rows, table.params()[i].rows);
      EXPECT_EQ(state[j].cols, table.params()[i].cols);
    }
  }
}

}  // namespace
}  // namespace gimbal::worker

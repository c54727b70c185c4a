#include "worker/optim/lr_schedule.h"

#include <gtest/gtest.h>

namespace gimbal::worker {
namespace {

TEST(LearningRate, WarmUpRisesLinearlyToThePeak) {
  for (LrKind kind : {LrKind::kConstant, LrKind::kCosine, LrKind::kWsd}) {
    const LrSpec spec{.kind = kind, .peak = 0.5, .warmup = 4, .steps = 100};
    EXPECT_DOUBLE_EQ(LearningRate(spec, 1), 0.125);
    EXPECT_DOUBLE_EQ(LearningRate(spec, 2), 0.25);
    EXPECT_DOUBLE_EQ(LearningRate(spec, 4), 0.5);
    EXPECT_DOUBLE_EQ(LearningRate(spec, 5), 0.5);
  }
}

TEST(LearningRate, NoWarmUpStartsAtThePeak) {
  for (LrKind kind : {LrKind::kConstant, LrKind::kCosine, LrKind::kWsd}) {
    const LrSpec spec{.kind = kind, .peak = 2, .warmup = 0, .steps = 10};
    EXPECT_DOUBLE_EQ(LearningRate(spec, 1), 2);
  }
}

TEST(LearningRate, ConstantStaysAtThePeak) {
  const LrSpec spec{
      .kind = LrKind::kConstant, .peak = 3, .warmup = 2, .steps = 10};
  for (int t = 2; t <= 10; ++t) EXPECT_DOUBLE_EQ(LearningRate(spec, t), 3);
}

TEST(LearningRate, CosineHalvesInTheMiddleAndEndsAtTheMinimum) {
  const LrSpec spec{.kind = LrKind::kCosine,
                    .peak = 1,
                    .warmup = 10,
                    .steps = 111,
                    .min_ratio = 0.2};
  EXPECT_DOUBLE_EQ(LearningRate(spec, 11), 1);
  EXPECT_NEAR(LearningRate(spec, 36), 0.2 + 0.8 * 0.853553390593274, 1e-12);
  EXPECT_NEAR(LearningRate(spec, 61), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 111), 0.2);
  for (int t = 12; t <= 111; ++t) {
    EXPECT_LT(LearningRate(spec, t), LearningRate(spec, t - 1));
  }
}

TEST(LearningRate, WsdIsStableThenFallsLinearly) {
  const LrSpec spec{.kind = LrKind::kWsd,
                    .peak = 1,
                    .warmup = 5,
                    .steps = 100,
                    .min_ratio = 0.1,
                    .decay_fraction = 0.2};
  for (int t = 5; t <= 80; ++t) EXPECT_DOUBLE_EQ(LearningRate(spec, t), 1);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 81), 1 - 0.9 / 20);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 90), 0.55);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 100), 0.1);
}

TEST(LearningRate, WsdWithoutStablePartFallsFromThePeak) {
  const LrSpec spec{.kind = LrKind::kWsd,
                    .peak = 1,
                    .warmup = 4,
                    .steps = 15,
                    .min_ratio = 0,
                    .decay_fraction = 1};
  EXPECT_DOUBLE_EQ(LearningRate(spec, 4), 1);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 5), 1);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 10), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 15), 0);
}

TEST(LearningRate, WarmUpAsLongAsTheRunOnlyRises) {
  for (LrKind kind : {LrKind::kConstant, LrKind::kCosine, LrKind::kWsd}) {
    for (int warmup : {9, 10, 20}) {
      const LrSpec spec{.kind = kind, .peak = 1, .warmup = warmup, .steps = 10};
      EXPECT_DOUBLE_EQ(LearningRate(spec, 9), 9.0 / warmup);
      EXPECT_DOUBLE_EQ(LearningRate(spec, 10), warmup == 20 ? 0.5 : 1);
    }
  }
}

}  // namespace
}  // namespace gimbal::worker

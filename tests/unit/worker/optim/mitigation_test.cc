#include "worker/optim/mitigation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gimbal::worker {
namespace {

MitigationSpec Everything() {
  return {.lr_discount_updates = 100,
          .lr_linear = true,
          .lr_matrix_factor = 1.5,
          .beta1_by_delay = true};
}

TEST(Mitigation, LeavesDelayZeroAlone) {
  const StageLr lr = LrOfStage(Everything(), 0, 7, 0.1);
  EXPECT_EQ(lr.lr, 0.1);
  EXPECT_EQ(lr.matrix_factor, 1);
  EXPECT_EQ(Beta1OfStage(Everything(), 0, 0.9), 0.9);
}

TEST(Mitigation, DiscountFadesUntilItsEnd) {
  const MitigationSpec spec{.lr_discount_updates = 100};
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 8, 50, 1).lr, std::pow(8, -0.5));
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 8, 100, 1).lr, 1);
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 8, 5000, 1).lr, 1);
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 1, 1, 1).lr, 1);
}

TEST(Mitigation, LinearRuleHasAFloorAndAFactorOnMatrices) {
  const MitigationSpec spec{
      .lr_linear = true, .lr_floor = 0.1, .lr_matrix_factor = 1.5};
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 10, 1, 2).lr, 2 * 0.7);
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 10, 1, 2).matrix_factor, 1.5);
  EXPECT_DOUBLE_EQ(LrOfStage(spec, 31, 1, 2).lr, 2 * 0.1);
}

TEST(Mitigation, Beta1FallsWithTheDelay) {
  const MitigationSpec spec{.beta1_by_delay = true};
  EXPECT_DOUBLE_EQ(Beta1OfStage(spec, 20, 0.5), 0.9 + 0.1 / std::exp(1));
}

}  // namespace
}  // namespace gimbal::worker

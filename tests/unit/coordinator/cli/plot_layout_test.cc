#include "coordinator/cli/plot_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gimbal::cli {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

TEST(RoundTicksTest, AreRoundAndInside) {
  EXPECT_THAT(RoundTicks(1, 600, 6),
              Pointwise(DoubleNear(1e-9), {100, 200, 300, 400, 500, 600}));
  EXPECT_THAT(RoundTicks(2.03, 2.61, 6),
              Pointwise(DoubleNear(1e-9), {2.1, 2.2, 2.3, 2.4, 2.5, 2.6}));
  EXPECT_THAT(RoundTicks(-0.5, 0.5, 4),
              Pointwise(DoubleNear(1e-9), {-0.5, 0., 0.5}));
}

TEST(SpreadLabelsTest, LeavesAloneWhatIsApart) {
  const double wanted[] = {10, 50, 30};
  EXPECT_THAT(SpreadLabels(wanted, 10, 0, 100), ElementsAre(10, 50, 30));
}

TEST(SpreadLabelsTest, PushesNeighboursApartAroundTheirMean) {
  const double wanted[] = {50, 50, 52};
  const std::vector<double> at = SpreadLabels(wanted, 9, 0, 100);
  EXPECT_NEAR(at[1] - at[0], 9, 1e-9);
  EXPECT_NEAR(at[2] - at[1], 9, 1e-9);
  EXPECT_NEAR(at[0] + at[1] + at[2], 152, 1e-9);
}

TEST(SpreadLabelsTest, StaysInside) {
  const double wanted[] = {99, 98, 97, 1};
  const std::vector<double> at = SpreadLabels(wanted, 10, 0, 100);
  EXPECT_LE(*std::max_element(at.begin(), at.end()), 100);
  EXPECT_EQ(at[0], 100);
  EXPECT_EQ(at[1], 90);
  EXPECT_EQ(at[2], 80);
  EXPECT_EQ(at[3], 1);
}

}  // namespace
}  // namespace gimbal::cli

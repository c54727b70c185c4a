#include "coordinator/planner/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

using ::testing::ElementsAre;

TEST(FillSlots, InOrderAtFirst) {
  EXPECT_THAT(FillSlots({0, 0, 0}, {4, 7, 9, 11}), ElementsAre(4, 7, 9));
}

TEST(FillSlots, SurvivorsKeepTheirsAndOthersStepIn) {
  EXPECT_THAT(FillSlots({4, 7, 9}, {4, 9, 12}), ElementsAre(4, 12, 9));
}

TEST(FillSlots, WithFewerWorkersANeighbourTakesTwo) {
  EXPECT_THAT(FillSlots({4, 7, 9, 11}, {4, 9, 11}), ElementsAre(4, 4, 9, 11));
  EXPECT_THAT(FillSlots({4, 7, 9, 11}, {9, 11}), ElementsAre(9, 11, 9, 11));
  EXPECT_THAT(FillSlots({4, 7, 9, 11}, {11}), ElementsAre(11, 11, 11, 11));
}

TEST(FillSlots, TheOneWithFewestComesBeforeANeighbour) {
  EXPECT_THAT(FillSlots({4, 4, 7, 9}, {4, 9}), ElementsAre(4, 4, 9, 9));
  EXPECT_THAT(FillSlots({4, 4, 7, 0, 9}, {4, 7, 9}),
              ElementsAre(4, 4, 7, 7, 9));
}

TEST(SpreadSlots, AnIdleWorkerTakesOneFromTheFullest) {
  EXPECT_THAT(SpreadSlots({4, 4, 9, 11}, {4, 9, 11, 12}),
              ElementsAre(4, 12, 9, 11));
  EXPECT_THAT(SpreadSlots({4, 4, 4, 11}, {4, 11, 12, 13}),
              ElementsAre(4, 13, 12, 11));
}

TEST(SpreadSlots, NothingMovesWithoutNeed) {
  EXPECT_THAT(SpreadSlots({4, 4, 9}, {4, 9}), ElementsAre(4, 4, 9));
  EXPECT_THAT(SpreadSlots({4, 7, 9}, {4, 7, 9, 12}), ElementsAre(4, 7, 9));
}

}  // namespace
}  // namespace gimbal::coordinator

#include "coordinator/checkpoint/memory_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Stage s by worker s + 1 and the next one.
void AddWhole(MemoryCuts& cuts, int64_t update) {
  for (int stage = 0; stage < 3; ++stage) {
    cuts.Add(stage, update, stage + 1);
    cuts.Add(stage, update, (stage + 1) % 3 + 1);
  }
}

TEST(MemoryCuts, ACutIsWholeWithAllItsCopiesAndRows) {
  MemoryCuts cuts(2);
  cuts.Add(0, 10, 1);
  cuts.Add(1, 10, 2);
  EXPECT_EQ(cuts.NewestWhole(10, 1), 10);
  EXPECT_EQ(cuts.NewestWhole(9, 1), std::nullopt);
  EXPECT_EQ(cuts.NewestWhole(10, 2), std::nullopt);
  cuts.Add(0, 10, 2);
  cuts.Add(1, 10, 1);
  EXPECT_EQ(cuts.NewestWhole(12, 2), 10);
  EXPECT_EQ(cuts.committed(), std::nullopt);
  cuts.Commit(10);
  EXPECT_EQ(cuts.committed(), 10);
  EXPECT_EQ(cuts.NewestWhole(12, 2), std::nullopt);
}

TEST(MemoryCuts, TheNewestCountsAndOlderOnesAreForgotten) {
  MemoryCuts cuts(3);
  AddWhole(cuts, 10);
  AddWhole(cuts, 20);
  cuts.Add(0, 30, 1);
  EXPECT_EQ(cuts.NewestWhole(100, 2), 20);
  EXPECT_EQ(cuts.NewestWhole(19, 2), 10);
  cuts.Commit(20);
  EXPECT_THAT(cuts.Missing(10), ElementsAre(0, 1, 2));
  cuts.Add(0, 10, 1);
  EXPECT_THAT(cuts.Missing(10), ElementsAre(0, 1, 2));
  EXPECT_THAT(cuts.Missing(20), IsEmpty());
  EXPECT_THAT(cuts.Holders(0, 30), ElementsAre(1));
}

TEST(MemoryCuts, ALostWorkerTakesItsCopiesWithIt) {
  MemoryCuts cuts(3);
  AddWhole(cuts, 10);
  cuts.Lose(2);
  EXPECT_EQ(cuts.NewestWhole(10, 2), std::nullopt);
  EXPECT_THAT(cuts.Holders(0, 10), ElementsAre(1));
  EXPECT_THAT(cuts.Holders(1, 10), ElementsAre(3));
  EXPECT_THAT(cuts.Missing(10), IsEmpty());
  cuts.Lose(3);
  EXPECT_THAT(cuts.Missing(10), ElementsAre(1));
}

TEST(MemoryCuts, WhatWasCommittedStaysSoWithoutItsCopies) {
  MemoryCuts cuts(3);
  AddWhole(cuts, 10);
  cuts.Commit(10);
  cuts.GiveUp(10);
  EXPECT_EQ(cuts.committed(), 10);
  EXPECT_THAT(cuts.Missing(10), ElementsAre(0, 1, 2));
}

TEST(MemoryCuts, WhatWasGivenUpStaysSoUntilItIsMadeAgain) {
  MemoryCuts cuts(3);
  EXPECT_TRUE(cuts.Add(0, 10, 1));
  cuts.GiveUp(10);
  EXPECT_FALSE(cuts.Add(1, 10, 2));
  AddWhole(cuts, 10);
  EXPECT_EQ(cuts.NewestWhole(100, 1), std::nullopt);
  cuts.GoBack(5);
  EXPECT_TRUE(cuts.Add(1, 10, 2));
  AddWhole(cuts, 20);
  cuts.Commit(20);
  EXPECT_FALSE(cuts.Add(1, 10, 2));
}

TEST(MemoryCuts, GoingBackForgetsWhatCameLater) {
  MemoryCuts cuts(3);
  AddWhole(cuts, 10);
  cuts.Commit(10);
  AddWhole(cuts, 20);
  cuts.GoBack(10);
  EXPECT_EQ(cuts.NewestWhole(100, 1), std::nullopt);
  EXPECT_EQ(cuts.committed(), 10);
  cuts.GoBack(5);
  EXPECT_EQ(cuts.committed(), std::nullopt);
  EXPECT_THAT(cuts.Missing(10), ElementsAre(0, 1, 2));
}

TEST(MemoryCuts, UnknownStagesAreIgnored) {
  MemoryCuts cuts(1);
  cuts.Add(1, 10, 1);
  cuts.Add(-1, 10, 1);
  EXPECT_EQ(cuts.NewestWhole(10, 1), std::nullopt);
}

}  // namespace
}  // namespace gimbal::coordinator

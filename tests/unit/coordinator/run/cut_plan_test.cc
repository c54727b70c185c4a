#include "coordinator/run/cut_plan.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

v1::RunConfig Config() {
  v1::RunConfig config;
  config.mutable_run()->set_steps(25);
  config.mutable_data()->set_valid("held-out");
  config.mutable_eval()->set_every(5);
  config.mutable_checkpoint()->set_every(10);
  return config;
}

TEST(CutAt, FollowsTheConfig) {
  for (int64_t update = 1; update <= 25; ++update) {
    const v1::Cut cut = CutAt(Config(), update, 25, false);
    EXPECT_EQ(cut.update(), update);
    EXPECT_EQ(cut.evaluate(), update % 5 == 0);
    EXPECT_EQ(cut.snapshot(), update % 10 == 0 || update == 25);
  }
}

TEST(CutAt, AnEarlyEndTakesASnapshotButNoExtraEvaluation) {
  const v1::Cut cut = CutAt(Config(), 12, 12, false);
  EXPECT_TRUE(cut.snapshot());
  EXPECT_FALSE(cut.evaluate());
}

TEST(CutAt, ZeroMeansOnlyAtTheEnd) {
  auto config = Config();
  config.mutable_eval()->set_every(0);
  config.mutable_checkpoint()->set_every(0);
  for (int64_t update = 1; update <= 25; ++update) {
    const v1::Cut cut = CutAt(config, update, 25, false);
    EXPECT_EQ(cut.evaluate(), update == 25);
    EXPECT_EQ(cut.snapshot(), update == 25);
  }
}

TEST(CutAt, NothingToEvaluateOnIsNoEvaluation) {
  auto config = Config();
  config.mutable_data()->clear_valid();
  EXPECT_FALSE(CutAt(config, 25, 25, false).evaluate());
}

TEST(CutAt, TakesASnapshotOnRequest) {
  EXPECT_TRUE(CutAt(Config(), 7, 25, true).snapshot());
}

TEST(CutAt, KeepsInMemoryWhereTheRunGoesOn) {
  auto config = Config();
  EXPECT_FALSE(CutAt(config, 6, 25, false).keep());
  config.mutable_cluster()->set_peer_snapshot_every(3);
  for (int64_t update = 1; update <= 24; ++update) {
    EXPECT_EQ(CutAt(config, update, 24, false).keep(),
              update % 3 == 0 && update < 24);
  }
  // A stop may be its reason.
  EXPECT_FALSE(CutAt(config, 6, 25, true).keep());
}

}  // namespace
}  // namespace gimbal::coordinator

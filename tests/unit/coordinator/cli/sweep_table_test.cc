#include "coordinator/cli/sweep_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::cli {
namespace {

using ::testing::HasSubstr;

// The loss falls by `speed` per update from 3, 400 updates.
RunRecord Run(double speed) {
  RunRecord record;
  for (int t = 1; t <= 400; ++t) {
    record.rows.push_back({.step = t,
                           .loss = 3 - speed * t,
                           .tokens = t * 10,
                           .seconds = 0.5 * t});
  }
  return record;
}

SweepSpec Spec() {
  SweepSpec spec;
  spec.seeds = {"1", "2"};
  spec.baseline = "slow";
  for (const char* name : {"slow", "fast"}) {
    spec.methods.push_back(
        {.name = name, .stages = {1, 4}, .lrs = {"1e-3", "2e-3"}});
  }
  return spec;
}

SweepRecords Records() {
  SweepRecords records;
  for (const SweepRun& run : RunsOf(Spec())) {
    double speed = run.method == "fast" ? 0.004 : 0.002;
    if (run.stages == 4) speed /= 2;
    if (run.lr == "2e-3") speed *= 1.25;
    if (run.seed == "2") speed *= 1.02;
    records[run.name] = Run(speed);
  }
  return records;
}

TEST(SweepTable, TakesEachMethodAtItsBestLearningRate) {
  const auto groups = GroupsOf(Spec(), Records(), {2.8});
  ASSERT_EQ(groups.size(), 4u);
  for (const SweepGroup& group : groups) {
    EXPECT_EQ(group.lr, "2e-3");
    EXPECT_EQ(group.seeds, 2);
    EXPECT_GT(group.final_loss_spread, 0);
    EXPECT_EQ(group.losses.size(), 400u);
    EXPECT_NEAR(group.seconds_per_update, 0.5, 1e-12);
  }
}

TEST(SweepTable, SlowDownIsAgainstOneStageOfItselfAndOfTheBaseline) {
  const auto groups = GroupsOf(Spec(), Records(), {2.8});
  const SweepGroup& slow_deep = groups[1];
  const SweepGroup& fast_deep = groups[3];
  EXPECT_EQ(*groups[0].slowdown_self[0], 1);
  // The mean of 50 updates lags by 24.5 updates, the same for all.
  EXPECT_NEAR(*slow_deep.slowdown_self[0], 2, 0.25);
  EXPECT_NEAR(*fast_deep.slowdown_self[0], 2, 0.4);
  EXPECT_NEAR(*fast_deep.slowdown_baseline[0], 1, 0.05);
}

TEST(SweepTable, ATargetThatOneSeedMissesIsMissing) {
  SweepRecords records = Records();
  const auto groups = GroupsOf(Spec(), records, {2.0, 0.0});
  EXPECT_TRUE(groups[2].steps[0].has_value());
  EXPECT_FALSE(groups[2].steps[1].has_value());
  EXPECT_FALSE(groups[2].slowdown_self[1].has_value());
  records.erase("fast-P4-lr1e-3-s1");
  EXPECT_EQ(GroupsOf(Spec(), records, {2.0}).size(), 4u);
}

TEST(SweepTable, WritesCsvAndMarkdown) {
  const std::string csv = RunsCsv(Spec(), Records(), {2.8});
  EXPECT_THAT(csv, HasSubstr("run,method,stages,lr,seed,updates,final_loss,"
                             "valid_loss,seconds,updates_to_2.8\n"));
  EXPECT_THAT(csv, HasSubstr("slow-P1-lr1e-3-s1,slow,1,1e-3,1,400,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 17);
  const std::string table =
      GroupsMarkdown(GroupsOf(Spec(), Records(), {2.8}), {2.8}, "slow");
  EXPECT_THAT(table, HasSubstr("| fast | 4 | 2e-3 | 2 |"));
  EXPECT_THAT(table, HasSubstr("| to 2.8 | / own | / slow |"));
}

}  // namespace
}  // namespace gimbal::cli

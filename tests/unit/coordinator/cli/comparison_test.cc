#include "coordinator/cli/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace gimbal::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunRecord MakeRun(const std::string& label, int steps,
                  const std::function<double(int)>& loss) {
  RunRecord run{.label = label, .method = "adamw", .schedule = "1f1b"};
  for (int t = 1; t <= steps; ++t) {
    run.rows.push_back({.step = t,
                        .loss = loss(t),
                        .tokens = 100 * t,
                        .seconds = 0.5 * t,
                        .valid_loss = std::nullopt});
  }
  return run;
}

TEST(ComparisonTest, SmoothedLossIsTheMeanOfTheLastOnes) {
  const RunRecord run = MakeRun("a", 4, [](int t) { return t; });
  EXPECT_THAT(SmoothedLosses(run.rows, 2), ElementsAre(1, 1.5, 2.5, 3.5));
}

TEST(ComparisonTest, StepsToLossIsTheFirstUpdateWhoseMeanIsThere) {
  // Loss 4 up to update 100, then 2: the mean of 50 is 3 after 25 of them.
  const RunRecord run =
      MakeRun("a", 200, [](int t) { return t <= 100 ? 4 : 2; });
  EXPECT_EQ(StepsToLoss(run.rows, 3), 125);
  EXPECT_EQ(StepsToLoss(run.rows, 2), 150);
  EXPECT_EQ(StepsToLoss(run.rows, 1.9), std::nullopt);
}

TEST(ComparisonTest, EarlyLuckDoesNotCount) {
  const RunRecord run = MakeRun("a", 200, [](int t) { return t == 1 ? 1 : 4; });
  EXPECT_EQ(StepsToLoss(run.rows, 2), std::nullopt);
}

TEST(ComparisonTest, AShortRunUsesAllItsUpdates) {
  const RunRecord run = MakeRun("a", 10, [](int) { return 3; });
  EXPECT_EQ(StepsToLoss(run.rows, 3), 10);
}

TEST(ComparisonTest, TheWindowIsNamedAsItIs) {
  const auto one = [](int) { return 1; };
  const std::vector<RunRecord> runs = {MakeRun("a", 60, one),
                                       MakeRun("b", 4, one)};
  EXPECT_EQ(LossWindowText(runs), "50 updates (b: all its 4)");
  EXPECT_EQ(LossWindowText(std::span(runs).first(1)), "50 updates");
  EXPECT_EQ(LossWindowText(std::span(runs).last(1)), "4 updates");
}

TEST(ComparisonTest, DefaultTargetsAreRoundAndReachable) {
  const std::vector<RunRecord> runs = {
      MakeRun("a", 100, [](int) { return 1.78; }),
      MakeRun("b", 100, [](int) { return 2.57; })};
  const std::vector<double> targets = DefaultTargets(runs);
  ASSERT_EQ(targets.size(), 3);
  EXPECT_NEAR(targets[0], 2.6, 1e-12);
  EXPECT_NEAR(targets[1], 2.2, 1e-12);
  EXPECT_NEAR(targets[2], 1.8, 1e-12);
  EXPECT_TRUE(StepsToLoss(runs[0].rows, targets[2]).has_value());
  EXPECT_TRUE(StepsToLoss(runs[1].rows, targets[0]).has_value());
}

TEST(ComparisonTest, ASingleRunGetsOneTarget) {
  const std::vector<RunRecord> runs = {
      MakeRun("a", 100, [](int) { return 2.345; })};
  EXPECT_THAT(DefaultTargets(runs),
              ElementsAre(testing::DoubleNear(2.35, 1e-9)));
}

TEST(ComparisonTest, TableShowsSlowDownAgainstTheFirstRun) {
  std::vector<RunRecord> runs = {
      MakeRun("sync", 400, [](int t) { return t <= 100 ? 4 : 2; }),
      MakeRun("deep", 400, [](int t) { return t <= 250 ? 4 : 2; })};
  runs[1].rows.back().valid_loss = 2.125;
  const double targets[] = {2};
  const std::string table = ComparisonTable(runs, targets);
  EXPECT_THAT(table, HasSubstr("to 2"));
  EXPECT_THAT(table,
              HasSubstr("2.0000           -   150       1.00       200"));
  EXPECT_THAT(table,
              HasSubstr("2.0000      2.1250   300       2.00       200"));
}

}  // namespace
}  // namespace gimbal::cli

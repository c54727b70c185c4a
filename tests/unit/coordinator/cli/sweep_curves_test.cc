#include "coordinator/cli/sweep_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/cli/comparison.h"
#include "tests/support/status_matchers.h"

namespace gimbal::cli {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using testing::HasSubstr;

RunRecord RunOf(int updates) {
  RunRecord record{.label = "a-P1"};
  for (int t = 1; t <= updates; ++t) {
    record.rows.push_back(
        {.step = t, .loss = 3 - 0.001 * t, .seconds = 0.5 * t});
  }
  record.rows.back().valid_loss = 1.25;
  return record;
}

TEST(SweepCurvesTest, AFinishedRunSurvivesTheFile) {
  const RunRecord record = RunOf(1234);
  const FinishedRun run = Condense("d1", record);
  const auto read = ParseCurves(CurvesCsv({{"a-P1", run}}), "curves.csv");
  ASSERT_THAT(read, IsOk());
  const FinishedRun& back = read->at("a-P1");
  EXPECT_EQ(back.digest, "d1");
  ASSERT_EQ(back.record.rows.size(), 1234u);
  for (size_t t = 0; t < 1234; ++t) {
    EXPECT_EQ(back.record.rows[t].loss, run.record.rows[t].loss);
    EXPECT_EQ(back.record.rows[t].step, static_cast<int64_t>(t + 1));
  }
  EXPECT_DOUBLE_EQ(back.record.rows.back().seconds, 617);
  EXPECT_DOUBLE_EQ(*back.record.rows.back().valid_loss, 1.25);
  // The text is the same again, so a sweep that goes on rewrites no line.
  EXPECT_EQ(CurvesCsv(*read), CurvesCsv({{"a-P1", run}}));
}

TEST(SweepCurvesTest, WhatASweepAsksForIsKept) {
  const RunRecord record = RunOf(600);
  const FinishedRun run = Condense("d1", record);
  EXPECT_NEAR(FinalLoss(run.record.rows), FinalLoss(record.rows), 1e-5);
  EXPECT_NEAR(*StepsToLoss(run.record.rows, 2.7),
              *StepsToLoss(record.rows, 2.7), 10);
}

TEST(SweepCurvesTest, ADamagedLineIsNamed) {
  for (const char* line : {"a-P1,d1,20,1.0,,2.5", "a-P1,d1,20,1.0,,2.5,x",
                           "a-P1,d1,0,1.0,,", "torn", "a-P1,,10,1.0,,2.5"}) {
    EXPECT_THAT(
        ParseCurves(std::string("b-P1,d,10,1.0,,2.5\n") + line, "curves.csv"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("curves.csv:2: ")));
  }
}

}  // namespace
}  // namespace gimbal::cli

#include "coordinator/cli/run_summary.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using absl::StatusCode;
using test_support::StatusIs;
using test_support::TempDir;
using testing::HasSubstr;

constexpr char kSummary[] = R"({
  "steps": 600, "final_loss": 2.25, "valid_loss": null, "tokens": 614400,
  "tokens_per_second": 12345.6, "wall_seconds": 50.5,
  "exit_reason": "completed", "stages": [
    {"stage": 0, "layers": "embedding, blocks 0-1", "delay_expected": 3,
     "staleness_mean": 3, "staleness_max": 3, "busy_fraction": 0.875,
     "refreshes": 60, "restarts": 0}]})";

TEST(RunSummaryTest, IsReadAndShown) {
  const TempDir dir;
  std::ofstream(dir / "summary.json") << kSummary;
  ASSERT_OK_AND_ASSIGN(const RunSummary summary, ReadRunSummary(dir.path()));
  EXPECT_EQ(summary.final_loss, 2.25);
  EXPECT_FALSE(summary.valid_loss.has_value());
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("final loss   2.2500 (mean of the last 50)\n"));
  EXPECT_THAT(text, HasSubstr("valid loss   none"));
  EXPECT_THAT(text, HasSubstr("12,345 tokens/s"));
  EXPECT_THAT(text, HasSubstr("0  embedding, blocks 0-1      3            3.00"
                              "    3   88%         60         0"));
}

TEST(RunSummaryTest, AShortRunsLossIsTheMeanOfAllItsUpdates) {
  const std::string text = FormatSummary({.steps = 12, .final_loss = 2.5});
  EXPECT_THAT(text, HasSubstr("final loss   2.5000 (mean of the last 12)\n"));
  EXPECT_THAT(FormatSummary({}), HasSubstr("final loss   none\n"));
}

TEST(RunSummaryTest, OtherFilesAreRefusedByName) {
  const TempDir dir;
  EXPECT_THAT(ReadRunSummary(dir.path()), StatusIs(StatusCode::kNotFound));
  std::ofstream(dir / "summary.json") << R"({"steps": "many"})";
  EXPECT_THAT(
      ReadRunSummary(dir.path()),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr(dir / "summary.json")));
}

}  // namespace
}  // namespace gimbal::cli

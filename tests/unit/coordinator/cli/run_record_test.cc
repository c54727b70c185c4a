#include "coordinator/cli/run_record.h"

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

class RunRecordTest : public testing::Test {
 protected:
  RunRecordTest() {
    Write("config.yaml",
          "run: {steps: 10}\ndata: {train: x, format: text}\n"
          "model: {layers: 4, hidden: 8, heads: 2, context: 16}\n"
          "pipeline: {stages: 4, schedule: async-1f1b}\n"
          "optimizer: {name: basis_rotation}\n");
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
  }
  TempDir dir_;
};

TEST_F(RunRecordTest, ReadsConfigAndRowsAndDropsATornLine) {
  Write("metrics.jsonl",
        R"({"step":1,"loss":5.5,"tokens":16,"seconds":0.5})"
        "\n"
        R"({"step":2,"loss":5.25,"tokens":32,"seconds":1,"valid_loss":5.1})"
        "\n"
        R"({"step":3,"lo)");
  ASSERT_OK_AND_ASSIGN(const RunRecord run, ReadRunRecord(dir_.path() + "/"));
  EXPECT_EQ(run.method, "basis_rotation");
  EXPECT_EQ(run.schedule, "async-1f1b");
  EXPECT_EQ(run.stages, 4);
  EXPECT_THAT(run.label, HasSubstr("gimbal-test-"));
  ASSERT_EQ(run.rows.size(), 2);
  EXPECT_EQ(run.rows[0].loss, 5.5);
  EXPECT_FALSE(run.rows[0].valid_loss.has_value());
  EXPECT_EQ(run.rows[1].valid_loss, 5.1);
  EXPECT_EQ(run.rows[1].tokens, 32);
}

TEST_F(RunRecordTest, OtherFilesAreNamedWithTheLine) {
  Write("metrics.jsonl", R"({"step":1,"loss":5.5,"tokens":16,"seconds":0.5})"
                         "\nhello\n");
  EXPECT_THAT(
      ReadRunRecord(dir_.path()),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("metrics.jsonl:2:")));
  Write("metrics.jsonl", R"({"step":2,"loss":5.5,"tokens":16,"seconds":0.5})"
                         "\n");
  EXPECT_THAT(ReadRunRecord(dir_.path()),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected step 1, found 2")));
}

TEST_F(RunRecordTest, WhatIsNoRunOrHasNotBegunSaysSo) {
  EXPECT_THAT(ReadRunRecord(dir_.path()), StatusIs(StatusCode::kNotFound));
  Write("metrics.jsonl", "");
  EXPECT_THAT(
      ReadRunRecord(dir_.path()),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("no update yet")));
  EXPECT_THAT(ReadRunRecord(dir_ / "nowhere"),
              StatusIs(StatusCode::kNotFound, HasSubstr("not a run folder")));
}

}  // namespace
}  // namespace gimbal::cli

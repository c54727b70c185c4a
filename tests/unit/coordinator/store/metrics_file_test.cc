#include "coordinator/store/metrics_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MetricsRow Row(int64_t step) {
  return {.step = step,
          .loss = 1.0 / static_cast<double>(step + 2),
          .lr = 1e-3,
          .grad_norm = 0.1,
          .tokens = 1024 * step,
          .seconds = 0.25,
          .staleness = {1, 0}};
}

TEST(MetricsRow, PrintsTheFewestDigitsThatReadBackTheSame) {
  MetricsRow row = Row(1);
  EXPECT_EQ(ToJson(row),
            "{\"step\":1,\"loss\":0.3333333333333333,\"lr\":0.001,"
            "\"grad_norm\":0.1,\"tokens\":1024,\"seconds\":0.25,"
            "\"staleness\":[1,0]}");
  row.valid_loss = 2.0 / 3;
  ASSERT_OK_AND_ASSIGN(const MetricsRow read, ParseMetricsRow(ToJson(row)));
  EXPECT_EQ(read.loss, row.loss);
  EXPECT_EQ(read.valid_loss, row.valid_loss);
  EXPECT_EQ(ToJson(read), ToJson(row));
}

// JSON has no word for them.
TEST(MetricsRow, WhatIsNotFiniteIsNull) {
  MetricsRow row = Row(1);
  row.loss = std::numeric_limits<double>::quiet_NaN();
  row.grad_norm = std::numeric_limits<double>::infinity();
  row.left_out = "nan";
  EXPECT_EQ(ToJson(row),
            "{\"step\":1,\"loss\":null,\"lr\":0.001,\"grad_norm\":null,"
            "\"tokens\":1024,\"seconds\":0.25,\"staleness\":[1,0],"
            "\"left_out\":\"nan\"}");
  ASSERT_OK_AND_ASSIGN(const MetricsRow read, ParseMetricsRow(ToJson(row)));
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(ToJson(read), ToJson(row));
}

TEST(MetricsFile, RowsReachTheFileOnFlush) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(dir / "m.jsonl"));
  file.Append(Row(1));
  ASSERT_THAT(file.Flush(), IsOk());
  file.Append(Row(2));
  ASSERT_THAT(file.Sync(), IsOk());
  EXPECT_EQ(*io::ReadFile(dir / "m.jsonl"),
            ToJson(Row(1)) + "\n" + ToJson(Row(2)) + "\n");
}

TEST(MetricsFile, RowsAreThoseBeforeTheFirstBadOne) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(dir / "m.jsonl"));
  EXPECT_TRUE(file.Rows()->empty());
  for (int64_t step : {1, 2, 3, 5}) file.Append(Row(step));
  EXPECT_EQ(file.Rows()->size(), 3u);
  EXPECT_EQ(ToJson(file.Rows()->back()), ToJson(Row(3)));
  std::ofstream(dir / "m.jsonl") << ToJson(Row(1)) << "\n{\"step\":2,";
  EXPECT_EQ(file.Rows()->size(), 1u);
}

TEST(MetricsFile, KeepDropsLaterRowsAndATornLine) {
  TempDir dir;
  const std::string path = dir / "m.jsonl";
  {
    ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(path));
    for (int64_t step = 1; step <= 5; ++step) file.Append(Row(step));
    ASSERT_THAT(file.Flush(), IsOk());
  }
  std::ofstream(path, std::ios::app) << "{\"step\":6,\"lo";
  ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(path));
  ASSERT_OK_AND_ASSIGN(auto rows, file.Keep(5));
  EXPECT_THAT(rows, SizeIs(5));
  ASSERT_OK_AND_ASSIGN(rows, file.Keep(3));
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[2].step, 3);
  EXPECT_EQ(rows[2].loss, Row(3).loss);
  file.Append(Row(4));
  ASSERT_THAT(file.Flush(), IsOk());
  ASSERT_OK_AND_ASSIGN(rows, file.Keep(4));
  EXPECT_THAT(rows, SizeIs(4));
  ASSERT_OK_AND_ASSIGN(rows, file.Keep(0));
  EXPECT_THAT(rows, IsEmpty());
  EXPECT_EQ(*io::ReadFile(path), "");
}

TEST(MetricsFile, KeepCountsRowsNotYetFlushed) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(dir / "m.jsonl"));
  for (int64_t step = 1; step <= 3; ++step) file.Append(Row(step));
  ASSERT_OK_AND_ASSIGN(const auto rows, file.Keep(2));
  EXPECT_THAT(rows, SizeIs(2));
}

// A run once went on above the gap and could never be resumed again.
TEST(MetricsFile, KeepRefusesAGapAtTheEndAndDropsNothing) {
  TempDir dir;
  const std::string path = dir / "m.jsonl";
  const std::string text = ToJson(Row(1)) + "\n{\"torn";
  std::ofstream(path) << text;
  ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(path));
  EXPECT_THAT(file.Keep(5),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("m.jsonl: ends with update 1, expected the "
                                 "rows up to 5")));
  EXPECT_EQ(*io::ReadFile(path), text);
}

TEST(MetricsFile, KeepNamesABadLine) {
  TempDir dir;
  const std::string path = dir / "m.jsonl";
  std::ofstream(path) << ToJson(Row(1)) << "\n" << ToJson(Row(3)) << "\n";
  ASSERT_OK_AND_ASSIGN(MetricsFile file, MetricsFile::Open(path));
  EXPECT_THAT(file.Keep(5), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr("m.jsonl:2: is update 3")));
}

}  // namespace
}  // namespace gimbal::coordinator

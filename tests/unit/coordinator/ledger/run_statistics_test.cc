#include "coordinator/ledger/run_statistics.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

MetricsRow Row(int64_t step) {
  MetricsRow row;
  row.step = step;
  row.loss = static_cast<double>(step);
  row.tokens = 100 * step;
  row.seconds = 0.5 * static_cast<double>(step);
  row.staleness = {std::min<int64_t>(1, step - 1), 0};
  return row;
}

TEST(RunStatistics, SaysNothingBeforeTheFirstRow) {
  const RunStatistics statistics({.stages = 2});
  EXPECT_FALSE(statistics.last().has_value());
  EXPECT_FALSE(statistics.smoothed_loss().has_value());
  EXPECT_FALSE(statistics.valid_loss().has_value());
  EXPECT_EQ(statistics.rate().tokens_per_second(), 0);
  EXPECT_EQ(statistics.staleness_mean(0), 0);
}

TEST(RunStatistics, SumsUpTheRows) {
  RunStatistics statistics({.stages = 2});
  for (int64_t step = 1; step <= 100; ++step) {
    MetricsRow row = Row(step);
    if (step == 70) row.valid_loss = 1.25;
    statistics.Add(row);
  }
  EXPECT_EQ(statistics.last()->step, 100);
  EXPECT_EQ(*statistics.smoothed_loss(), 75.5);  // mean of 51..100
  EXPECT_EQ(statistics.valid_loss(), 1.25);
  EXPECT_EQ(statistics.valid_update(), 70);
  EXPECT_EQ(statistics.rate().tokens_per_second(), 200);
  // The warm-up (update 1 at stage 0) does not count.
  EXPECT_EQ(statistics.staleness_mean(0), 1);
  EXPECT_EQ(statistics.staleness_max(0), 1);
  EXPECT_EQ(statistics.staleness_mean(1), 0);
}

// Staleness is that of the present stages; the rest is about the whole run.
TEST(RunStatistics, TakesRowsOfFormerStages) {
  RunStatistics statistics({.stages = 2, .origin = 10});
  for (int64_t step = 1; step <= 20; ++step) {
    MetricsRow row = Row(step);
    row.staleness = {std::min<int64_t>(1, step - 11), 0};
    if (step <= 10) row.staleness = {7};
    statistics.Add(row);
  }
  EXPECT_EQ(*statistics.smoothed_loss(), 10.5);
  EXPECT_EQ(statistics.staleness_max(0), 1);
  EXPECT_EQ(statistics.staleness_mean(0), 1) << "the new warm-up is left out";
  EXPECT_EQ(statistics.staleness_max(1), 0);
}

}  // namespace
}  // namespace gimbal::coordinator

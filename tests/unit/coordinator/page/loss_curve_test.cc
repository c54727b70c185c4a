#include "coordinator/page/loss_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gimbal::coordinator {
namespace {

MetricsRow Row(int64_t step) {
  return {.step = step, .loss = 1.0 / static_cast<double>(step)};
}

TEST(LossCurve, ShowsAShortRunAsItIs) {
  LossCurve curve;
  MetricsRow second = Row(2);
  second.valid_loss = 7;
  curve.Add(Row(1));
  curve.Add(second);
  ASSERT_EQ(curve.losses().size(), 2u);
  EXPECT_EQ(curve.losses()[1].update, 2);
  EXPECT_EQ(curve.losses()[1].loss, 0.5);
  ASSERT_EQ(curve.valid_losses().size(), 1u);
  EXPECT_EQ(curve.valid_losses()[0].loss, 7);
}

TEST(LossCurve, KeepsItsSizeAndItsMeanHoweverLongTheRunIs) {
  LossCurve curve;
  double sum = 0;
  constexpr int64_t kSteps = 1 << 17;
  for (int64_t step = 1; step <= kSteps; ++step) {
    curve.Add(Row(step));
    sum += Row(step).loss;
  }
  const auto points = curve.losses();
  EXPECT_LE(points.size(), LossCurve::kMostPoints);
  EXPECT_GE(points.size(), LossCurve::kMostPoints / 2);
  EXPECT_EQ(points.back().update, kSteps);
  double seen = 0;
  int64_t before = 0;
  for (const LossCurve::Point& point : points) {
    seen += point.loss * static_cast<double>(point.update - before);
    before = point.update;
  }
  EXPECT_NEAR(seen, sum, 1e-9);
}

TEST(LossCurve, LeavesOutWhatHasNoLoss) {
  LossCurve curve;
  MetricsRow row = Row(1);
  row.loss = std::numeric_limits<double>::quiet_NaN();
  curve.Add(row);
  row = Row(2);
  row.left_out = "a spike";
  curve.Add(row);
  EXPECT_TRUE(curve.losses().empty());
}

TEST(LossCurve, BeginsAnewWithTheRowsThatAreKept) {
  LossCurve curve;
  for (int64_t step = 1; step <= 10; ++step) curve.Add(Row(step));
  curve.Restart({Row(1), Row(2)});
  curve.Add(Row(3));
  ASSERT_EQ(curve.losses().size(), 3u);
  EXPECT_EQ(curve.losses().back().update, 3);
}

}  // namespace
}  // namespace gimbal::coordinator

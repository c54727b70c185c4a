#include "common/trace/clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/trace/clock_line.h"

namespace gimbal::trace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(TraceClock, AnAnswerTellsTheOffsetWithinHalfTheTimeUnderway) {
  // The other clock is 100 ahead; 30 on the way there, 5 there, 10 back.
  const ClockSample sample = MeasureClock(1000, 1130, 1135, 1045);
  EXPECT_EQ(sample.at_ns, 1045);
  EXPECT_EQ(sample.uncertainty_ns, 20);
  EXPECT_NEAR(sample.offset_ns, 100, 20);
}

TEST(ClockLine, TheBestSampleCountsAndNoiseMakesNoDrift) {
  std::vector<ClockSample> samples;
  for (int64_t i = 0; i < 30; ++i) {
    const int64_t noise = (i % 7) * 1000;
    samples.push_back({i * kSecond, 5 * kSecond + noise, 500 + noise});
  }
  const ClockLine line = FitClock(samples);
  EXPECT_EQ(line.drift, 0);
  EXPECT_EQ(line.offset_ns, 5 * kSecond);
  EXPECT_EQ(line.uncertainty_ns, 500);
  EXPECT_EQ(line.OffsetAt(100 * kSecond), 5 * kSecond);
}

TEST(ClockLine, ADriftThatNoConstantCanExplainIsFollowed) {
  std::vector<ClockSample> samples;
  for (int64_t i = 0; i < 60; ++i) {
    samples.push_back({i * kSecond, -3 * kSecond + i * 50'000, 10'000});
  }
  const ClockLine line = FitClock(samples);
  EXPECT_NEAR(line.drift, 50e-6, 1e-6);
  EXPECT_NEAR(line.OffsetAt(30 * kSecond), -3 * kSecond + 1'500'000, 20'000);
}

TEST(ClockLine, WithoutASampleNothingIsKnown) {
  EXPECT_LT(FitClock({}).uncertainty_ns, 0);
}

}  // namespace
}  // namespace gimbal::trace

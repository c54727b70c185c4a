#include "coordinator/cli/trace_clocks.h"

#include <gtest/gtest.h>

namespace gimbal::cli {
namespace {

using trace::ClockSample;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kFirst = 71, kSecondLife = 72;

// A clock as it is: `ahead` of true time at 0, and that much faster.
struct Clock {
  int64_t ahead_ns = 0;
  double faster = 0;
  int64_t At(int64_t true_ns) const {
    return true_ns + ahead_ns +
           static_cast<int64_t>(faster * static_cast<double>(true_ns));
  }
};

// One sample a second, each wrong by its uncertainty.
std::vector<ClockSample> Samples(const Clock& own, int64_t clock,
                                 const Clock& other, int64_t from_second,
                                 int64_t to_second,
                                 int64_t uncertainty_ns = kMs / 10) {
  std::vector<ClockSample> samples;
  for (int64_t s = from_second; s < to_second; ++s) {
    const int64_t error = s % 2 == 0 ? uncertainty_ns : -uncertainty_ns;
    const int64_t at = own.At(s * kSecond);
    samples.push_back({.at_ns = at,
                       .offset_ns = other.At(s * kSecond) - at + error,
                       .uncertainty_ns = uncertainty_ns,
                       .clock = clock});
  }
  return samples;
}

std::vector<ClockSample> Both(std::vector<ClockSample> samples,
                              const std::vector<ClockSample>& more) {
  samples.insert(samples.end(), more.begin(), more.end());
  return samples;
}

// Where the axis has a moment that the process saw.
int64_t OnAxis(const ProcessClock& clock, const Clock& own, int64_t second) {
  const int64_t at = own.At(second * kSecond);
  return at + clock.line.OffsetAt(at);
}

const Clock kCoordinator = {};
const Clock kSuccessor = {.ahead_ns = 4 * kSecond};
const Clock kA = {.ahead_ns = -3 * kSecond}, kB = {.ahead_ns = kSecond},
            kC = {.ahead_ns = -kSecond};

std::vector<ClockSample> OfBoth(const Clock& own, const Clock& successor) {
  return Both(Samples(own, kFirst, kCoordinator, 0, 20),
              Samples(own, kSecondLife, successor, 21, 60));
}

TEST(TraceClocks, WhoMeasuredTwoCoordinatorsIsOnOneAxis) {
  const auto clocks =
      SetClocks({OfBoth(kA, kSuccessor), OfBoth(kB, kSuccessor)});
  for (const int64_t second : {0, 20, 60}) {
    EXPECT_NEAR(OnAxis(clocks[0], kA, second), OnAxis(clocks[1], kB, second),
                kMs);
  }
  EXPECT_EQ(clocks[0].line.drift, 0);
  EXPECT_EQ(clocks[0].group, 0);
  EXPECT_EQ(clocks[1].group, 0);
}

TEST(TraceClocks, WhoMeasuredOneOfThemIsPlacedByThoseOfBoth) {
  const auto clocks = SetClocks({OfBoth(kA, kSuccessor),
                                 Samples(kB, kFirst, kCoordinator, 0, 20),
                                 Samples(kC, kSecondLife, kSuccessor, 30, 60)});
  EXPECT_NEAR(OnAxis(clocks[1], kB, 20), OnAxis(clocks[0], kA, 20), kMs);
  EXPECT_NEAR(OnAxis(clocks[2], kC, 50), OnAxis(clocks[0], kA, 50), kMs);
  EXPECT_EQ(clocks[1].group, clocks[0].group);
  EXPECT_EQ(clocks[2].group, clocks[0].group);
  // Of the links' samples too.
  EXPECT_GE(
      std::max(clocks[1].line.uncertainty_ns, clocks[2].line.uncertainty_ns),
      3 * kMs / 10);
}

TEST(TraceClocks, TheSuccessorsMachineMayGoAtAnotherRate) {
  const Clock fast = {.ahead_ns = 4 * kSecond, .faster = 100e-6};
  const auto clocks =
      SetClocks({OfBoth(kA, fast), Samples(kB, kFirst, kCoordinator, 0, 20),
                 Samples(kC, kSecondLife, fast, 21, 60)});
  for (const int64_t second : {21, 40, 59}) {
    EXPECT_NEAR(OnAxis(clocks[2], kC, second), OnAxis(clocks[0], kA, second),
                kMs);
  }
  EXPECT_NEAR(OnAxis(clocks[1], kB, 10), OnAxis(clocks[0], kA, 10), kMs);
}

TEST(TraceClocks, TheBestLinkCounts) {
  const auto loose =
      Both(Samples(kB, kFirst, kCoordinator, 0, 20, 30 * kMs),
           Samples(kB, kSecondLife, kSuccessor, 21, 60, 30 * kMs));
  const auto clocks = SetClocks({loose, OfBoth(kA, kSuccessor),
                                 Samples(kC, kSecondLife, kSuccessor, 30, 60)});
  EXPECT_NEAR(OnAxis(clocks[2], kC, 50), OnAxis(clocks[1], kA, 50), kMs);
  EXPECT_LT(clocks[2].line.uncertainty_ns, kMs);
}

TEST(TraceClocks, WhatNothingLinksIsAGroupOfItsOwn) {
  const auto clocks = SetClocks({Samples(kA, kFirst, kCoordinator, 0, 20),
                                 Samples(kB, kSecondLife, kSuccessor, 21, 60),
                                 Samples(kC, kSecondLife, kSuccessor, 21, 60),
                                 {}});
  EXPECT_EQ(clocks[0].group, 1);
  EXPECT_EQ(clocks[1].group, 0);
  EXPECT_EQ(clocks[2].group, 0);
  EXPECT_EQ(clocks[3].group, 2);
  EXPECT_NEAR(OnAxis(clocks[1], kB, 40), OnAxis(clocks[2], kC, 40), kMs);
  EXPECT_LT(clocks[3].line.uncertainty_ns, 0);
}

}  // namespace
}  // namespace gimbal::cli

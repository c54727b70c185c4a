#include "coordinator/run/grant_window.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

using std::chrono::milliseconds;

const base::SteadyTime kStart{std::chrono::seconds(1000)};

// Feeds `seconds` of training at a rate, one report each 100 ms.
void Train(GrantWindow& window, double updates_per_second, int seconds) {
  for (int i = 0; i <= 10 * seconds; ++i) {
    window.Observe(static_cast<int64_t>(updates_per_second * i / 10),
                   /*used_up=*/false, kStart + milliseconds(100 * i));
  }
}

TEST(GrantWindow, CoversASecondOfTraining) {
  GrantWindow window(4);
  EXPECT_EQ(window.size(), 10);
  Train(window, 100, 10);
  EXPECT_EQ(window.size(), 100);
}

TEST(GrantWindow, StaysWithinItsBounds) {
  GrantWindow slow(4);
  Train(slow, 0.5, 10);
  EXPECT_EQ(slow.size(), 10);
  GrantWindow fast(4);
  Train(fast, 100000, 3);
  EXPECT_EQ(fast.size(), 512);
  GrantWindow deep(1000);
  Train(deep, 100000, 3);
  EXPECT_EQ(deep.size(), 2002);
}

TEST(GrantWindow, DoublesWheneverItWasUsedUp) {
  GrantWindow window(1);
  int64_t update = 0;
  for (int i = 1; i <= 10; ++i) {
    update += window.size();
    const int64_t before = window.size();
    window.Observe(update, /*used_up=*/true, kStart + milliseconds(i));
    EXPECT_GE(window.size(), std::min<int64_t>(512, 2 * before));
  }
  EXPECT_EQ(window.size(), 512);
}

TEST(GrantWindow, ForgetsTheRateOnRestart) {
  GrantWindow window(1);
  Train(window, 100, 5);
  window.Restart();
  window.Observe(3, false, kStart + std::chrono::hours(1));
  EXPECT_EQ(window.size(), 4) << "the least";
}

}  // namespace
}  // namespace gimbal::coordinator

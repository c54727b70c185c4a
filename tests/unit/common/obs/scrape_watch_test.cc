#include "common/obs/scrape_watch.h"

#include <gtest/gtest.h>

#include <thread>

namespace gimbal::obs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock final : public base::Clock {
 public:
  base::SteadyTime Now() const override { return now; }
  double UnixSeconds() const override { return 0; }
  base::SteadyTime now{seconds(1000)};
};

class ScrapeWatchTest : public ::testing::Test {
 protected:
  void NoteTwice(milliseconds apart) {
    watch_.Note();
    clock_.now += apart;
    watch_.Note();
  }
  base::Seconds Waited(milliseconds most) {
    base::Stopwatch wall;
    watch_.WaitForNext(most);
    return base::Seconds(wall.Lap());
  }

  FakeClock clock_;
  ScrapeWatch watch_{clock_};
};

TEST_F(ScrapeWatchTest, WhoLookedOnceIsNotWaitedFor) {
  EXPECT_LT(Waited(seconds(60)), seconds(30));
  watch_.Note();
  EXPECT_LT(Waited(seconds(60)), seconds(30));
}

TEST_F(ScrapeWatchTest, WhoLooksRegularlyIsWaitedForUntilItLooks) {
  NoteTwice(seconds(20));
  clock_.now += seconds(1);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    watch_.Note();
  });
  const base::Seconds waited = Waited(seconds(60));
  other.join();
  EXPECT_GE(waited, milliseconds(20));
  EXPECT_LT(waited, seconds(30));
}

TEST_F(ScrapeWatchTest, ButNotForLongerThanItMayTake) {
  NoteTwice(milliseconds(20));
  const base::Seconds waited = Waited(seconds(60));
  EXPECT_GE(waited, milliseconds(40));
  EXPECT_LT(waited, seconds(30));
}

TEST_F(ScrapeWatchTest, WhoLooksRarelyOrNoMoreIsNotWaitedFor) {
  NoteTwice(seconds(31));
  EXPECT_LT(Waited(seconds(60)), seconds(30));
  NoteTwice(seconds(20));
  clock_.now += seconds(41);
  EXPECT_LT(Waited(seconds(60)), seconds(30));
}

}  // namespace
}  // namespace gimbal::obs

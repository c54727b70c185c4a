#include "worker/agent/fence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;

constexpr base::Seconds kLease{3};

class ManualClock final : public base::Clock {
 public:
  base::SteadyTime Now() const override {
    return base::SteadyTime(std::chrono::milliseconds(milliseconds.load()));
  }
  double UnixSeconds() const override { return 0; }
  std::atomic<int64_t> milliseconds = 1000;
};

class FenceTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  Fence fence_{clock_};
};

TEST_F(FenceTest, IsOpenWhileItBeats) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(fence_.Beat(kLease), 0);
    EXPECT_THAT(fence_.Await(), IsOk());
    clock_.milliseconds += 2900;
  }
}

TEST_F(FenceTest, WithoutALeaseItIsOpen) {
  EXPECT_EQ(fence_.Beat(base::Seconds(0)), 0);
  clock_.milliseconds += 100000;
  EXPECT_EQ(fence_.Beat(kLease), 0);
  EXPECT_THAT(fence_.Await(), IsOk());
}

TEST_F(FenceTest, AfterASleepItWaitsForTheAnswerToItsProbe) {
  fence_.Beat(kLease);
  clock_.milliseconds += 3100;
  // The writer wakes up before the heartbeat.
  std::atomic<bool> open = false;
  std::thread writer([&] {
    EXPECT_THAT(fence_.Await(), IsOk());
    open = true;
  });
  const int64_t probe = fence_.Beat(kLease);
  EXPECT_GT(probe, 0);
  clock_.milliseconds += 100;
  EXPECT_EQ(fence_.Beat(kLease), probe) << "asks again";
  fence_.Answered(probe - 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(open) << "an answer to an older one";
  fence_.Answered(probe);
  writer.join();
  EXPECT_EQ(fence_.Beat(kLease), 0);
}

TEST_F(FenceTest, LostItLetsNothingThroughBeforeItIsRenewed) {
  fence_.Beat(kLease);
  clock_.milliseconds += 3100;
  std::thread writer([&] {
    EXPECT_THAT(fence_.Await(), StatusIs(absl::StatusCode::kAborted));
  });
  fence_.Lose();
  writer.join();
  EXPECT_THAT(fence_.Await(), StatusIs(absl::StatusCode::kAborted));
  fence_.Renew();
  EXPECT_THAT(fence_.Await(), IsOk());
}

TEST_F(FenceTest, OnlyAClosedOneIsLostWithItsCoordinator) {
  fence_.Beat(kLease);
  fence_.LoseIfClosed();
  EXPECT_THAT(fence_.Await(), IsOk());
  clock_.milliseconds += 3100;
  fence_.Beat(kLease);
  fence_.LoseIfClosed();
  EXPECT_THAT(fence_.Await(), StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace gimbal::worker

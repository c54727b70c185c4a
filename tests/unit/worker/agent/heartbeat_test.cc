#include "worker/agent/heartbeat.h"

#include <gtest/gtest.h>

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

TEST(HeartbeatInterval, SeveralFitIntoAnyLease) {
  EXPECT_EQ(HeartbeatInterval(milliseconds(3000)), milliseconds(500));
  EXPECT_EQ(HeartbeatInterval(milliseconds(60000)), milliseconds(500));
  EXPECT_EQ(HeartbeatInterval(milliseconds(600)), milliseconds(100));
  EXPECT_EQ(HeartbeatInterval(milliseconds(100)), milliseconds(16));
  EXPECT_EQ(HeartbeatInterval(milliseconds(1)), milliseconds(1));
  EXPECT_EQ(HeartbeatInterval(milliseconds(0)), milliseconds(500));
}

}  // namespace
}  // namespace gimbal::worker

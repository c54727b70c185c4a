#include "common/obs/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"

namespace gimbal::obs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ManualClock final : public base::Clock {
 public:
  base::SteadyTime Now() const override { return now; }
  double UnixSeconds() const override { return 0; }
  base::SteadyTime now;
};

TEST(Health, IsAliveAsLongAsTheLoopTurns) {
  ManualClock clock;
  Health health(clock);
  clock.now += Health::kSilence - std::chrono::seconds(1);
  EXPECT_EQ(health.Alive().status, 200);
  clock.now += std::chrono::seconds(2);
  EXPECT_EQ(health.Alive().status, 503);
  EXPECT_THAT(health.Alive().body, HasSubstr("stands still for 16 s"));
  health.Beat();
  EXPECT_EQ(health.Alive().status, 200);
}

TEST(Health, SaysWhatItWaitsForUntilItIsReady) {
  Health health;
  EXPECT_EQ(health.Ready().status, 503);
  health.SetWaiting("waits for an edge");
  EXPECT_EQ(health.Ready().body, "waits for an edge\n");
  EXPECT_EQ(health.Alive().status, 200);
  health.SetWaiting("");
  EXPECT_EQ(health.Ready().status, 200);
}

TEST(Health, IsServedUnderTheUsualNames) {
  const Health health;
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  health.Serve(*server);
  EXPECT_THAT(test_support::HttpGet(server->address(), "/healthz"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(test_support::HttpGet(server->address(), "/readyz"),
              StartsWith("HTTP/1.1 503 "));
}

}  // namespace
}  // namespace gimbal::obs

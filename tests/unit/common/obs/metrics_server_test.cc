#include "common/obs/metrics_server.h"

#include <gtest/gtest.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"

namespace gimbal::obs {
namespace {

using test_support::HttpGet;
using test_support::StatusIs;
using ::testing::HasSubstr;

TEST(MetricsServer, ShowsARegisteredMetricAtTheAddressItNames) {
  ASSERT_OK_AND_ASSIGN(auto server, MetricsServer::Start("127.0.0.1:0"));
  prometheus::BuildGauge()
      .Name("gimbal_train_loss")
      .Register(server->registry())
      .Add({{"run", "demo"}})
      .Set(2.5);
  EXPECT_THAT(HttpGet(server->address(), "/metrics"),
              HasSubstr("gimbal_train_loss{run=\"demo\"} 2.5"));
}

TEST(MetricsServer, NamesATakenAddress) {
  ASSERT_OK_AND_ASSIGN(auto first, MetricsServer::Start("127.0.0.1:0"));
  EXPECT_THAT(
      MetricsServer::Start(first->address()),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(first->address())));
  EXPECT_THAT(
      MetricsServer::Start("nonsense"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")));
}

}  // namespace
}  // namespace gimbal::obs

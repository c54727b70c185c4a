#include "common/obs/metrics_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace gimbal::obs {
namespace {

using test_support::StatusIs;
using ::testing::HasSubstr;

// What a scraper sees.
std::string Get(const std::string& address, const std::string& path) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
  inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
  std::string answer;
  if (connect(socket_fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) ==
      0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    if (write(socket_fd, request.data(), request.size()) > 0) {
      char buffer[4096];
      ssize_t count = 0;
      while ((count = read(socket_fd, buffer, sizeof(buffer))) > 0) {
        answer.append(buffer, count);
      }
    }
  }
  close(socket_fd);
  return answer;
}

TEST(MetricsServer, ShowsARegisteredMetricAtTheAddressItNames) {
  ASSERT_OK_AND_ASSIGN(auto server, MetricsServer::Start("127.0.0.1:0"));
  prometheus::BuildGauge()
      .Name("gimbal_train_loss")
      .Register(server->registry())
      .Add({{"run", "demo"}})
      .Set(2.5);
  EXPECT_THAT(Get(server->address(), "/metrics"),
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

#include "common/obs/http_server.h"

#include <gtest/gtest.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <atomic>
#include <deque>
#include <future>
#include <string>
#include <thread>

#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"

namespace gimbal::obs {
namespace {

using test_support::HttpConnection;
using test_support::HttpGet;
using test_support::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Ask(const std::string& address, const std::string& request) {
  HttpConnection connection(address);
  EXPECT_TRUE(connection.Send(request));
  return connection.ReadAll();
}

TEST(HttpServer, ShowsARegisteredMetricAtTheAddressItNames) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  prometheus::BuildGauge()
      .Name("gimbal_train_loss")
      .Register(server->registry())
      .Add({{"run", "demo"}})
      .Set(2.5);
  EXPECT_THAT(HttpGet(server->address(), "/metrics"),
              AllOf(StartsWith("HTTP/1.1 200 OK"),
                    HasSubstr("gimbal_train_loss{run=\"demo\"} 2.5")));
}

TEST(HttpServer, NamesATakenAddress) {
  ASSERT_OK_AND_ASSIGN(auto first, HttpServer::Start("127.0.0.1:0"));
  EXPECT_THAT(
      HttpServer::Start(first->address()),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(first->address())));
  EXPECT_THAT(
      HttpServer::Start("nonsense"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")));
}

TEST(HttpServer, AnswersWithTheRegisteredPagesAndNothingElse) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  server->Handle("/echo", [](std::string_view query) {
    return HttpResponse{.status = 503, .body = std::string(query)};
  });
  const std::string& address = server->address();
  EXPECT_THAT(HttpGet(address, "/echo?a=1&b"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\r\n\r\na=1&b")));
  EXPECT_THAT(HttpGet(address, "/other"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("/echo, /metrics")));
  // Nothing of the machine's files is there.
  EXPECT_THAT(HttpGet(address, "/../../../../etc/passwd"),
              Not(HasSubstr("root:")));
  EXPECT_THAT(
      Ask(address, "HEAD /echo?a HTTP/1.0\r\n\r\n"),
      AllOf(HasSubstr("Content-Length: 1"), Not(HasSubstr("\r\n\r\na"))));
  EXPECT_THAT(Ask(address, "POST /echo HTTP/1.0\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
}

TEST(HttpServer, RefusesARequestThatIsTooLong) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  std::atomic<int> answered = 0;
  server->Handle("/page", [&](std::string_view) {
    ++answered;
    return HttpResponse{};
  });
  const std::string padding(HttpServer::kMaxRequestBytes, 'x');
  EXPECT_THAT(HttpGet(server->address(), "/page?" + padding),
              Not(HasSubstr(" 200 ")));
  EXPECT_EQ(answered, 0);
  HttpGet(server->address(), "/page?" + padding.substr(100));
  EXPECT_EQ(answered, 1);
}

TEST(HttpServer, OutlivesClientsThatHoldAllItsConnections) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  std::deque<HttpConnection> slow;
  for (int i = 0; i < HttpServer::kThreads + 8; ++i) {
    slow.emplace_back(server->address());
    // Half a request, or none at all.
    if (i % 2 == 0) slow.back().Send("GET /metrics HTTP/1.0\r\n");
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(HttpGet(server->address(), "/metrics"), HasSubstr(" 200 "));
  // A probe of Kubernetes waits for 5 s.
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            2 * HttpServer::kRequestTimeout);
}

// They once held it up for ten seconds, which is when Prometheus gives up.
TEST(HttpServer, SixHundredHalfOpenConnectionsHoldItUpForSomeSecondsAtMost) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  std::deque<HttpConnection> slow;
  for (int i = 0; i < 600; ++i) {
    slow.emplace_back(server->address());
    if (i % 2 == 0) slow.back().Send("GET /metrics HTTP/1.0\r\n");
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(HttpGet(server->address(), "/metrics"), HasSubstr(" 200 "));
  // A probe of Kubernetes waits for 5 s.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST(HttpServer, KeepsNobodyWaitingForFortySlowClients) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  std::deque<HttpConnection> slow;
  for (int i = 0; i < 40; ++i) {
    slow.emplace_back(server->address());
    slow.back().Send("GET /metrics HTTP/1.0\r\n");
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(HttpGet(server->address(), "/metrics"), HasSubstr(" 200 "));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            HttpServer::kRequestTimeout);
}

// The last scrape of a run that failed was once cut off.
TEST(HttpServer, EndsWithWhatItIsAnswering) {
  ASSERT_OK_AND_ASSIGN(auto server, HttpServer::Start("127.0.0.1:0"));
  std::promise<void> asked;
  const std::string body(4 << 20, 'x');
  server->Handle("/slow", [&](std::string_view) -> HttpResponse {
    asked.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return {.body = body};
  });
  std::string answer;
  std::thread client(
      [&, address = server->address()] { answer = HttpGet(address, "/slow"); });
  asked.get_future().wait();
  server.reset();
  client.join();
  EXPECT_GT(answer.size(), body.size());
}

}  // namespace
}  // namespace gimbal::obs

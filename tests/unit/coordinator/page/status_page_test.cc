#include "coordinator/page/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::HttpGet;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Body(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

TEST(StatusPage, ServesThePageAndItsData) {
  StatusBoard board;
  LossCurve curve;
  TimesHistory times;
  v1::GetStatusResponse status;
  status.set_name("demo");
  status.set_unix_seconds(5);
  status.add_stages()->mutable_times()->set_rotate(1.5);
  board.Publish(status);
  times.Add(status);
  curve.Add({.step = 1, .loss = 2.5});
  ASSERT_OK_AND_ASSIGN(auto server, obs::HttpServer::Start("127.0.0.1:0"));
  ServeStatusPage(*server, board, curve, times);
  EXPECT_THAT(HttpGet(server->address(), "/"), HasSubstr("text/html"));
  EXPECT_EQ(nlohmann::json::parse(
                Body(HttpGet(server->address(), "/status.json")))["name"],
            "demo");
  EXPECT_EQ(Body(HttpGet(server->address(), "/history.json")),
            "{\"losses\":[[1,2.5]],\"valid_losses\":[]}\n");
  const auto told =
      nlohmann::json::parse(Body(HttpGet(server->address(), "/times.json")));
  EXPECT_EQ(told[0]["unix_seconds"], 5);
  EXPECT_EQ(told[0]["stages"][0]["stage"], 0);
  EXPECT_EQ(told[0]["stages"][0]["times"]["rotate"], 1.5);
  EXPECT_EQ(told[0]["stages"][0]["times"].size(), 10u) << "every phase";
}

TEST(StatusPage, SaysThatTheCoordinatorIsStarting) {
  ASSERT_OK_AND_ASSIGN(auto server, obs::HttpServer::Start("127.0.0.1:0"));
  ServeStartingPage(*server);
  for (const char* path :
       {"/", "/status.json", "/history.json", "/times.json"}) {
    EXPECT_THAT(HttpGet(server->address(), path),
                AllOf(HasSubstr(" 503 "), HasSubstr("is starting")));
  }
}

TEST(StatusPage, WhoWatchesIsWaitedFor) {
  StatusBoard board;
  LossCurve curve;
  TimesHistory times;
  ASSERT_OK_AND_ASSIGN(auto server, obs::HttpServer::Start("127.0.0.1:0"));
  ServeStatusPage(*server, board, curve, times);
  HttpGet(server->address(), "/status.json?watch=a");
  v1::GetStatusResponse status;
  status.set_exit_code(0);
  board.Publish(status);
  const auto waited = [&] {
    const base::SteadyTime begin = base::Clock::Real().Now();
    board.WaitForWatchers(std::chrono::milliseconds(200));
    return base::Clock::Real().Now() - begin;
  };
  EXPECT_GE(waited(), std::chrono::milliseconds(200));
  HttpGet(server->address(), "/status.json?watch=a");
  EXPECT_LT(waited(), std::chrono::milliseconds(200));
}

TEST(StatusPage, IsOneDocumentThatLoadsNothingFromElsewhere) {
  const std::string page = kStatusPage;
  EXPECT_EQ(page.find("{{"), std::string::npos);
  const std::regex loads(
      R"((src|href)="(?!data:|#|status\.json|history\.json|times\.json|metrics))");
  EXPECT_FALSE(std::regex_search(page, loads));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

}  // namespace
}  // namespace gimbal::coordinator

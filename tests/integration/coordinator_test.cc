// The coordinator's services over loopback, with workers that only speak.
#include "coordinator/coordinator.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/checkpoint/catalogue.h"
#include "gimbal/v1/admin_service.grpc.pb.h"
#include "tests/integration/coordinator_fake_worker.h"
#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;
using Request = v1::CommandRequest;

constexpr int kSteps = 3000;

v1::RunConfig Config(const std::string& name = "demo") {
  const auto config = config::ParseRunConfig(
      "run: {name: " + name + ", steps: " + std::to_string(kSteps) + "}\n" +
          "data: {train: t, valid: v}\n"
          "model: {layers: 3, hidden: 8, heads: 2, context: 8}\n"
          "pipeline: {stages: 3}\n"
          "checkpoint: {every: 500, keep: 2}\n"
          "eval: {every: 100}\n",
      "c.yaml", {});
  EXPECT_THAT(config, test_support::IsOk());
  return *config;
}

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

class Client {
 public:
  explicit Client(const Coordinator& coordinator)
      : stub_(v1::AdminService::NewStub(
            rpc::MakeChannel(coordinator.address()))) {}

  v1::GetStatusResponse Status() {
    grpc::ClientContext context;
    rpc::SetTimeout(context, std::chrono::seconds(20));
    v1::GetStatusResponse response;
    const auto status = stub_->GetStatus(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  absl::StatusOr<v1::CommandResponse> Command(Request::Verb verb) {
    grpc::ClientContext context;
    rpc::SetTimeout(context, std::chrono::seconds(20));
    Request request;
    request.set_verb(verb);
    v1::CommandResponse response;
    const auto status =
        rpc::FromGrpc(stub_->Command(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

 private:
  std::unique_ptr<v1::AdminService::Stub> stub_;
};

// metrics.jsonl without the one value that depends on time.
std::string RowsWithoutSeconds(const std::string& run_dir) {
  std::istringstream lines(*io::ReadFile(run_dir + "/metrics.jsonl"));
  std::string rows;
  for (std::string line; std::getline(lines, line);) {
    auto row = nlohmann::ordered_json::parse(line);
    row.erase("seconds");
    rows += row.dump() + "\n";
  }
  return rows;
}

std::string UndisturbedRows() {
  TempDir dir;
  auto coordinator = Coordinator::Start(
      {.config = Config(), .run_dir = dir.path(), .workers = 1});
  EXPECT_THAT(coordinator, test_support::IsOk());
  FakeWorker worker((*coordinator)->address(), "a");
  EXPECT_EQ((*coordinator)->Wait(), 0);
  return RowsWithoutSeconds(dir.path());
}

TEST(CoordinatorTest, RunsToTheEnd) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start(
          {.config = Config(), .run_dir = dir.path(), .workers = 2}));
  const auto json =
      nlohmann::json::parse(*io::ReadFile(dir / "coordinator.json"));
  EXPECT_EQ(json.at("address"), coordinator->address());
  EXPECT_EQ(json.at("metrics_address"), coordinator->metrics_address());
  FakeWorker a(coordinator->address(), "a");
  FakeWorker b(coordinator->address(), "b");
  EXPECT_EQ(coordinator->Wait(), 0);
  EXPECT_TRUE(Eventually([&] { return a.exit_code().has_value(); }));
  EXPECT_EQ(a.exit_code(), 0);
  EXPECT_FALSE(std::filesystem::exists(dir / "coordinator.json"));
  EXPECT_EQ(FindNewestGood(dir / "checkpoints").update, kSteps);
  EXPECT_EQ(CommittedCheckpoints(dir / "checkpoints").size(), 2u);
  const auto summary =
      nlohmann::json::parse(*io::ReadFile(dir / "summary.json"));
  EXPECT_EQ(summary.at("steps"), kSteps);
  EXPECT_EQ(summary.at("stages").size(), 3u);
  EXPECT_EQ(summary.at("stages")[0].at("staleness_mean"), 2.0);
  EXPECT_EQ(summary.at("peak_rss_bytes").at("b"), 1234);
  EXPECT_EQ(RowsWithoutSeconds(dir.path()), UndisturbedRows());
}

TEST(CoordinatorTest, ALossWhilePausedLeavesTheNumbersAsTheyWere) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start(
          {.config = Config(), .run_dir = dir.path(), .workers = 2}));
  Client client(*coordinator);
  EXPECT_EQ(client.Status().state(), v1::RUN_STATE_PENDING);
  FakeWorker a(coordinator->address(), "a");
  auto b = std::make_unique<FakeWorker>(coordinator->address(), "b");
  ASSERT_TRUE(
      Eventually([&] { return client.Command(Request::VERB_PAUSE).ok(); }));
  const auto state_is = [&](v1::RunState state) {
    return Eventually([&] { return client.Status().state() == state; });
  };
  ASSERT_TRUE(state_is(v1::RUN_STATE_PAUSED));
  const int64_t paused_at = client.Status().update();
  b.reset();
  ASSERT_TRUE(state_is(v1::RUN_STATE_RECOVERING));
  FakeWorker c(coordinator->address(), "c");
  ASSERT_TRUE(state_is(v1::RUN_STATE_PAUSED));
  const auto status = client.Status();
  EXPECT_EQ(status.update(), paused_at);
  EXPECT_EQ(status.generation(), 2);
  EXPECT_EQ(status.workers_size(), 2);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       client.Command(Request::VERB_CHECKPOINT));
  EXPECT_EQ(checkpoint.update(), paused_at + 1);
  ASSERT_TRUE(Eventually([&] {
    return client.Status().last_checkpoint() == checkpoint.update();
  }));
  ASSERT_TRUE(
      Eventually([&] { return client.Command(Request::VERB_RESUME).ok(); }));
  EXPECT_EQ(coordinator->Wait(), 0);
  EXPECT_EQ(RowsWithoutSeconds(dir.path()), UndisturbedRows());
}

TEST(CoordinatorTest, StopAndResumeLeaveTheNumbersAsTheyWere) {
  TempDir dir;
  int64_t stopped_at = 0;
  {
    ASSERT_OK_AND_ASSIGN(
        auto coordinator,
        Coordinator::Start(
            {.config = Config(), .run_dir = dir.path(), .workers = 1}));
    FakeWorker worker(coordinator->address(), "a");
    Client client(*coordinator);
    // A pause first: the run must not end before the stop comes.
    ASSERT_TRUE(
        Eventually([&] { return client.Command(Request::VERB_PAUSE).ok(); }));
    coordinator->RequestStop("test");
    EXPECT_EQ(coordinator->Wait(), 4);
    stopped_at = FindNewestGood(dir / "checkpoints").update;
    EXPECT_GT(stopped_at, 0);
    EXPECT_TRUE(Eventually([&] { return worker.exit_code() == 4; }));
  }
  EXPECT_THAT(
      Coordinator::Start({.config = Config(), .run_dir = dir.path()}),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--resume")));
  ASSERT_OK_AND_ASSIGN(auto coordinator,
                       Coordinator::Start({.config = Config(),
                                           .run_dir = dir.path(),
                                           .resume = true,
                                           .workers = 3}));
  EXPECT_EQ(Client(*coordinator).Status().update(), stopped_at);
  FakeWorker a(coordinator->address(), "a");
  FakeWorker b(coordinator->address(), "b");
  FakeWorker c(coordinator->address(), "c");
  EXPECT_EQ(coordinator->Wait(), 0);
  EXPECT_EQ(RowsWithoutSeconds(dir.path()), UndisturbedRows());
}

TEST(CoordinatorTest, ATakenPortOrFolderIsNamedAndNothingIsWritten) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start({.config = Config(), .run_dir = dir / "a"}));
  auto config = Config();
  config.mutable_cluster()->set_listen(coordinator->address());
  EXPECT_THAT(Coordinator::Start({.config = config, .run_dir = dir / "b"}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(coordinator->address())));
  EXPECT_FALSE(std::filesystem::exists(dir / "b"));
  EXPECT_THAT(Coordinator::Start(
                  {.config = Config(), .run_dir = dir / "a", .resume = true}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("pid")));
  EXPECT_THAT(
      Coordinator::Start(
          {.config = Config(), .run_dir = dir / "b", .workers = 4}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--workers 4")));
}

// The value that workers use too; names may repeat in a cluster.
TEST(CoordinatorTest, SeriesCarryTheIdOfTheRun) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start({.config = Config(), .run_dir = dir.path()}));
  const std::string id = Client(*coordinator).Status().run_id();
  EXPECT_THAT(id, ::testing::StartsWith("demo-"));
  const std::string metrics =
      test_support::HttpGet(coordinator->metrics_address(), "/metrics");
  EXPECT_THAT(metrics, HasSubstr("run=\"" + id + "\""));
  EXPECT_THAT(metrics, ::testing::Not(HasSubstr("run=\"demo\"")));
}

}  // namespace
}  // namespace gimbal::coordinator

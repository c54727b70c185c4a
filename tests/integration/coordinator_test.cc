// The coordinator's services over loopback, with workers that only speak.
#include "coordinator/coordinator.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "absl/strings/str_replace.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/checkpoint/catalogue.h"
#include "gimbal/v1/admin_service.grpc.pb.h"
#include "gimbal/v1/control_service.grpc.pb.h"
#include "tests/integration/coordinator_fake_worker.h"
#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::HttpGet;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Request = v1::CommandRequest;

constexpr int kSteps = 3000;

// Nobody trains on it, but the run knows its contents.
const std::string& Corpus() {
  static const TempDir dir;
  static const std::string path = [] {
    EXPECT_TRUE(io::WriteFileAtomically(dir / "corpus", "some text").ok());
    return dir / "corpus";
  }();
  return path;
}

v1::RunConfig Config(const std::string& name = "demo") {
  const auto config = config::ParseRunConfig(
      "run: {name: " + name + ", steps: " + std::to_string(kSteps) + "}\n" +
          "data: {format: text, train: " + Corpus() + ", valid: " + Corpus() +
          "}\n"
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
            rpc::MakeChannel(coordinator.address(), {}))) {}

  v1::GetStatusResponse Status(bool watching = false) {
    grpc::ClientContext context;
    rpc::SetTimeout(context, std::chrono::seconds(20));
    v1::GetStatusRequest request;
    request.set_watching(watching);
    v1::GetStatusResponse response;
    const auto status = stub_->GetStatus(&context, request, &response);
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

// The health service's raw answer: its messages are not installed everywhere.
std::string AskHealth(const std::string& address) {
  grpc::GenericStub stub(rpc::MakeChannel(address, {}));
  grpc::ClientContext context;
  rpc::SetTimeout(context, std::chrono::seconds(20));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request,
                 &response,
                 [&](grpc::Status status) { done.set_value(status); });
  const grpc::Status status = done.get_future().get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice answer;
  EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
  return std::string(reinterpret_cast<const char*>(answer.begin()),
                     answer.size());
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
  // The store is whole without its log.
  EXPECT_TRUE(std::filesystem::exists(dir / "coordinator.db"));
  EXPECT_FALSE(std::filesystem::exists(dir / "coordinator.db-wal"));
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

TEST(CoordinatorTest, WhoWatchesSeesTheEnd) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start(
          {.config = Config(), .run_dir = dir.path(), .workers = 1}));
  FakeWorker worker(coordinator->address(), "a");
  std::optional<int> seen;
  std::thread watcher([&] {
    Client client(*coordinator);
    while (!seen.has_value() && !::testing::Test::HasFailure()) {
      const auto status = client.Status(/*watching=*/true);
      if (status.has_exit_code()) seen = status.exit_code();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  EXPECT_EQ(coordinator->Wait(), 0);
  watcher.join();
  EXPECT_EQ(seen, 0);
}

TEST(CoordinatorTest, ExportsItsMetricsAndHealth) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start(
          {.config = Config(), .run_dir = dir.path(), .workers = 1}));
  // HealthCheckResponse{status: SERVING}.
  EXPECT_EQ(AskHealth(coordinator->address()), std::string("\x08\x01"));
  for (const char* page : {"/healthz", "/readyz"}) {
    EXPECT_THAT(HttpGet(coordinator->metrics_address(), page),
                HasSubstr(" 200 OK"));
  }
  Client client(*coordinator);
  // The series carry the run's id, which is another one each time.
  const auto metrics = [&] {
    return absl::StrReplaceAll(
        HttpGet(coordinator->metrics_address(), "/metrics"),
        {{client.Status().run_id(), "demo"}});
  };
  EXPECT_THAT(metrics(), HasSubstr("gimbal_run_state{run=\"demo\","
                                   "state=\"pending\"} 1"));
  FakeWorker worker(coordinator->address(), "a");
  ASSERT_TRUE(
      Eventually([&] { return client.Command(Request::VERB_PAUSE).ok(); }));
  ASSERT_TRUE(Eventually(
      [&] { return client.Status().state() == v1::RUN_STATE_PAUSED; }));
  ASSERT_THAT(client.Command(Request::VERB_CHECKPOINT), test_support::IsOk());
  ASSERT_TRUE(Eventually([&] {
    return metrics().find("gimbal_checkpoint_bytes{") != std::string::npos;
  }));
  const std::string text = metrics();
  for (const char* name :
       {"gimbal_train_loss{run=\"demo\"} ", "gimbal_train_tokens_total{",
        "gimbal_train_grad_norm{", "gimbal_train_learning_rate{",
        "gimbal_stage_staleness_updates{run=\"demo\",stage=\"0\"} 2",
        "gimbal_stage_staleness_bucket{", "gimbal_stage_updates_total{",
        "gimbal_stage_weight_version{run=\"demo\",stage=\"2\"} ",
        "gimbal_workers{run=\"demo\",state=\"training\"} 1",
        "gimbal_checkpoint_last_success_timestamp_seconds{",
        "gimbal_checkpoint_failures_total{run=\"demo\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
}

// Runs to its end in a folder; the identity of the data is that of `config`.
void Finish(const v1::RunConfig& config, const std::string& run_dir) {
  auto coordinator =
      Coordinator::Start({.config = config, .run_dir = run_dir, .workers = 1});
  ASSERT_THAT(coordinator, test_support::IsOk());
  FakeWorker worker((*coordinator)->address(), "a");
  EXPECT_EQ((*coordinator)->Wait(), 0);
}

TEST(CoordinatorTest, OtherDataIsRefusedOnResume) {
  TempDir dir;
  auto config = Config();
  config.mutable_data()->set_train(dir / "corpus");
  ASSERT_THAT(io::WriteFileAtomically(dir / "corpus", "some text"),
              test_support::IsOk());
  Finish(config, dir / "run");
  const auto resume = [&] {
    return Coordinator::Start(
               {.config = config, .run_dir = dir / "run", .resume = true})
        .status();
  };
  ASSERT_THAT(io::WriteFileAtomically(dir / "corpus", "some tent"),
              test_support::IsOk());
  EXPECT_THAT(resume(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("holds a run on other data: "
                                           "data.train is text of 9 bytes")));
  config.mutable_data()->set_train(Corpus());  // moved
  EXPECT_THAT(resume(), test_support::IsOk());
  config.mutable_data()->clear_valid();
  EXPECT_THAT(resume(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("data.valid is none here")));
}

// A missing mount once made --resume begin again at 0, over the old rows.
TEST(CoordinatorTest, CheckpointsThatAreGoneAreAnErrorAndNothingIsLost) {
  TempDir dir;
  Finish(Config(), dir.path());
  const std::string rows = *io::ReadFile(dir / "metrics.jsonl");
  std::filesystem::rename(dir / "checkpoints", dir / "elsewhere");
  EXPECT_THAT(Coordinator::Start(
                  {.config = Config(), .run_dir = dir.path(), .resume = true}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr(dir / "checkpoints: no good checkpoint")));
  EXPECT_EQ(*io::ReadFile(dir / "metrics.jsonl"), rows);
}

TEST(CoordinatorTest, TwoRunsDoNotShareAFolderOfCheckpoints) {
  TempDir dir;
  auto config = Config();
  config.mutable_checkpoint()->set_dir(dir / "shared");
  Finish(config, dir / "a");
  EXPECT_THAT(Coordinator::Start({.config = config, .run_dir = dir / "b"}),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("choose another checkpoint.dir")));
  EXPECT_FALSE(std::filesystem::exists(dir / "b"));
  Finish(Config(), dir / "c");
  EXPECT_THAT(Coordinator::Start(
                  {.config = config, .run_dir = dir / "c", .resume = true}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("set checkpoint.dir")));
  EXPECT_EQ(FindNewestGood(dir / "shared").update, kSteps);
}

// The server waited for a call that waited for the loop, which never ran.
TEST(CoordinatorTest, AWorkerThatCallsEarlyDoesNotHoldAFailingStart) {
  TempDir dir;
  auto config = Config();
  std::string address;
  {
    ASSERT_OK_AND_ASSIGN(
        auto other,
        Coordinator::Start({.config = config, .run_dir = dir / "other"}));
    address = other->address();
  }
  config.mutable_cluster()->set_listen(address);
  // Large enough that the worker calls while it is hashed.
  config.mutable_data()->set_train(dir / "large");
  std::ofstream(dir / "large");
  std::filesystem::resize_file(dir / "large", 250 << 20);
  ASSERT_THAT(io::WriteFileAtomically(dir / "taken/run", "another-1"),
              test_support::IsOk());
  Finish(Config(), dir / "run");
  config.mutable_checkpoint()->set_dir(dir / "taken");
  FakeWorker early(address, "early");
  EXPECT_THAT(Coordinator::Start(
                  {.config = config, .run_dir = dir / "run", .resume = true}),
              testing::Not(test_support::IsOk()));
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

// A coordinator that was started again once counted restarts from zero, against
// what status and the summary said.
TEST(CoordinatorTest, RestartsAreCountedOverTheLivesOfTheCoordinator) {
  TempDir dir;
  std::string counted;
  const auto restarts = [](const Coordinator& coordinator) {
    std::istringstream lines(
        HttpGet(coordinator.metrics_address(), "/metrics"));
    std::string found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("gimbal_stage_restarts_total") ||
          line.starts_with("gimbal_stage_recovery_seconds")) {
        found += line + "\n";
      }
    }
    return found;
  };
  {
    ASSERT_OK_AND_ASSIGN(
        auto coordinator,
        Coordinator::Start(
            {.config = Config(), .run_dir = dir.path(), .workers = 1}));
    Client client(*coordinator);
    auto a = std::make_unique<FakeWorker>(coordinator->address(), "a");
    ASSERT_TRUE(
        Eventually([&] { return client.Command(Request::VERB_PAUSE).ok(); }));
    a.reset();
    FakeWorker b(coordinator->address(), "b");
    ASSERT_TRUE(Eventually([&] {
      const auto status = client.Status();
      return status.recoveries_size() == 1 &&
             status.recoveries(0).has_recovered_seconds();
    }));
    counted = restarts(*coordinator);
    EXPECT_THAT(counted,
                HasSubstr("restarts_total{reason=\"connection\",run=\"" +
                          client.Status().run_id() + "\",stage=\"2\"} 1\n"));
    EXPECT_THAT(counted,
                HasSubstr("recovery_seconds_count{run=\"" +
                          client.Status().run_id() + "\",stage=\"0\"} 1\n"));
    coordinator.reset();  // before the worker, which is not lost
  }
  ASSERT_OK_AND_ASSIGN(auto again, Coordinator::Start({.config = Config(),
                                                       .run_dir = dir.path(),
                                                       .resume = true,
                                                       .workers = 1}));
  EXPECT_EQ(restarts(*again), counted);
  EXPECT_EQ(Client(*again).Status().stages(2).restarts(), 1);
}

// Where it once said 0.0.0.0, which nobody can scrape.
TEST(CoordinatorTest, ScrapeTargetsCanBeConnectedTo) {
  TempDir dir;
  for (const std::string host : {"", "trainer-1"}) {
    auto config = Config();
    config.mutable_cluster()->set_metrics_listen("0.0.0.0:0");
    const std::string folder = dir / ("run-" + host);
    ASSERT_OK_AND_ASSIGN(
        auto coordinator,
        Coordinator::Start(
            {.config = config, .run_dir = folder, .advertise = host}));
    const auto stub = v1::ControlService::NewStub(
        rpc::MakeChannel(coordinator->address(), {}));
    for (const char* address : {"0.0.0.0:9401", "[::]:9402", "10.0.0.9:9403"}) {
      grpc::ClientContext context;
      rpc::SetTimeout(context, std::chrono::seconds(20));
      v1::RegisterRequest request;
      request.set_data_address("10.0.0.9:1");
      request.set_metrics_address(address);
      v1::RegisterResponse response;
      ASSERT_TRUE(stub->Register(&context, request, &response).ok());
    }
    const std::string port = coordinator->metrics_address().substr(
        coordinator->metrics_address().rfind(':'));
    const auto targets = [&] {
      std::vector<std::string> found;
      for (const auto& group : nlohmann::json::parse(
               *io::ReadFile(folder + "/prometheus-targets.json"))) {
        found.push_back(group.at("targets").at(0));
      }
      return found;
    };
    ASSERT_TRUE(Eventually([&] { return targets().size() == 4; }));
    EXPECT_THAT(targets(),
                ElementsAre((host.empty() ? "localhost" : host) + port,
                            (host.empty() ? "127.0.0.1" : host) + ":9401",
                            (host.empty() ? "127.0.0.1" : host) + ":9402",
                            "10.0.0.9:9403"));
  }
}

TEST(CoordinatorTest, EveryCallIsCounted) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      auto coordinator,
      Coordinator::Start(
          {.config = Config(), .run_dir = dir.path(), .workers = 1}));
  Client client(*coordinator);
  const std::string run = client.Status().run_id();
  EXPECT_FALSE(client.Command(Request::VERB_PAUSE).ok());
  FakeWorker worker(coordinator->address(), "a");
  const auto count = [&](const std::string& method) {
    const std::string text =
        HttpGet(coordinator->metrics_address(), "/metrics");
    const std::string series = "gimbal_rpc_seconds_count{method=\"" + method +
                               "\",run=\"" + run + "\"} ";
    const size_t at = text.find(series);
    return at == std::string::npos ? -1
                                   : std::stoi(text.substr(at + series.size()));
  };
  for (const char* method : {"Register", "Session", "GetStatus", "Command"}) {
    EXPECT_TRUE(Eventually([&] { return count(method) > 0; })) << method;
  }
  EXPECT_EQ(count("Put"), 0);
  EXPECT_EQ(count("Get"), 0);
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

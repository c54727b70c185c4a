// gimbal-worker as a process, against a coordinator that misbehaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/config/run_config_io.h"
#include "tests/e2e/worker/fake_coordinator.h"
#include "tests/support/command.h"
#include "tests/support/http_get.h"
#include "tests/support/temp_dir.h"

namespace gimbal {
namespace {

using std::chrono::seconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::FakeCoordinator;
using test_support::HttpGet;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class WorkerProcess : public ::testing::Test {
 protected:
  explicit WorkerProcess(const std::string& log_format = "text")
      : worker_({"gimbal-worker", "--coordinator", coordinator_.address(),
                 "--name", "w", "--log-format", log_format}) {
    std::ofstream(folder_ / "text") << std::string(1000, 'a');
  }

  // The one stage of a run on the data at `path`.
  v1::CoordinatorMessage Assignment(const std::string& path) {
    const auto config = config::ParseRunConfig(
        "run: {steps: 5}\n"
        "data: {train: " +
            path +
            ", format: text}\n"
            "model: {layers: 1, hidden: 8, heads: 2, context: 8}\n"
            "optimizer: {name: adamw}\n"
            "cluster: {threads: 2}\n",
        "test", {});
    EXPECT_TRUE(config.ok()) << config.status();
    v1::CoordinatorMessage message;
    message.set_generation(1);
    v1::Assignment& assignment = *message.mutable_assignment();
    *assignment.mutable_config() = *config;
    assignment.set_run_id("fake-run");
    assignment.set_checkpoint_root(folder_ / "checkpoints");
    assignment.add_stages(0);
    assignment.add_placements()->set_blocks(1);
    return message;
  }

  static v1::CoordinatorMessage Shutdown(int exit_code) {
    v1::CoordinatorMessage message;
    message.mutable_shutdown()->set_exit_code(exit_code);
    return message;
  }

  bool AwaitRegistrations(size_t count) {
    return coordinator_.AwaitThat(
        [&] { return coordinator_.registrations().size() >= count; });
  }

  const test_support::TempDir folder_;
  FakeCoordinator coordinator_;
  Command worker_;
};

class WorkerProcessWithJson : public WorkerProcess {
 protected:
  WorkerProcessWithJson() : WorkerProcess("json") {}
};

TEST_F(WorkerProcess, RegistersAgainAsTheSameWorkerAfterAnAbortedSession) {
  coordinator_.Send(Assignment(folder_ / "text"));
  ASSERT_TRUE(coordinator_.Await(
      [](const v1::WorkerMessage& message) { return message.has_ready(); }));
  coordinator_.EndSession(absl::AbortedError("not a member any more"));
  ASSERT_TRUE(AwaitRegistrations(2));
  coordinator_.Send(Shutdown(0));
  const CommandResult result = worker_.Wait(seconds(30));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  // It computes with two threads by now.
  const auto registrations = coordinator_.registrations();
  EXPECT_EQ(registrations[0].numerics(), registrations[1].numerics());
}

// Whoever starts workers again must not take a run that is complete for one
// that failed.
TEST_F(WorkerProcess, EndsWellWithARunThatIsComplete) {
  ASSERT_TRUE(AwaitRegistrations(1));
  coordinator_.RefuseWorkers(absl::OutOfRangeError("all updates are done"));
  coordinator_.EndSession(absl::AbortedError("not a member any more"));
  const CommandResult result = worker_.Wait(seconds(30));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("all updates are done"));
}

TEST_F(WorkerProcess, AsksToStopUntilTheCoordinatorAgrees) {
  coordinator_.AnswerCommands([](int number) {
    return number < 3 ? absl::FailedPreconditionError("is recovering")
                      : absl::OkStatus();
  });
  ASSERT_TRUE(AwaitRegistrations(1));
  worker_.Signal(SIGTERM);
  ASSERT_TRUE(
      coordinator_.AwaitThat([&] { return coordinator_.commands() == 3; }));
  coordinator_.Send(Shutdown(4));
  const CommandResult result = worker_.Wait(seconds(30));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("is recovering"));
  EXPECT_EQ(coordinator_.commands(), 3);
}

TEST_F(WorkerProcess, ASecondTermEndsItWhateverItWaitsFor) {
  ASSERT_TRUE(AwaitRegistrations(1));
  worker_.Signal(SIGTERM);
  ASSERT_TRUE(
      coordinator_.AwaitThat([&] { return coordinator_.commands() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const auto begin = std::chrono::steady_clock::now();
  worker_.Signal(SIGTERM);
  EXPECT_EQ(worker_.Wait(seconds(30)).exit_code, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(2));
}

// What announces the end of a job may do it twice; the worker once ended with
// the request untold.
TEST_F(WorkerProcess, TwoSignalsAtOnceAreOneRequest) {
  coordinator_.AnswerCommands([](int) { return absl::OkStatus(); });
  ASSERT_TRUE(AwaitRegistrations(1));
  worker_.Signal(SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  worker_.Signal(SIGUSR1);
  ASSERT_TRUE(
      coordinator_.AwaitThat([&] { return coordinator_.commands() == 1; }));
  coordinator_.Send(Shutdown(4));
  EXPECT_EQ(worker_.Wait(seconds(30)).exit_code, 4);
}

TEST_F(WorkerProcess, ARequestToStopWaitsForTheNextCoordinator) {
  coordinator_.AnswerCommands([](int) { return absl::OkStatus(); });
  ASSERT_TRUE(AwaitRegistrations(1));
  coordinator_.RefuseWorkers(absl::UnavailableError("is away"));
  coordinator_.EndSession(absl::UnavailableError("was killed"));
  ASSERT_TRUE(AwaitRegistrations(2));
  worker_.Signal(SIGTERM);
  ASSERT_TRUE(AwaitRegistrations(4));
  coordinator_.RefuseWorkers(absl::OkStatus());
  ASSERT_TRUE(
      coordinator_.AwaitThat([&] { return coordinator_.commands() == 1; }));
  coordinator_.Send(Shutdown(4));
  const CommandResult result = worker_.Wait(seconds(30));
  EXPECT_EQ(result.exit_code, 4) << result.output;
}

// Opening a pipe that nobody writes to never returns.
TEST_F(WorkerProcess, EndsInTimeWithAnAssignmentThatCannotBeLeft) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  coordinator_.Send(Assignment(folder_ / "pipe"));
  ASSERT_TRUE(coordinator_.Await([](const v1::WorkerMessage& message) {
    return message.has_heartbeat() && message.generation() == 1;
  }));
  coordinator_.Send(Shutdown(3));
  const CommandResult result = worker_.Wait(seconds(30));
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr("leaves without it"));
}

// Who waits for a neighbour or for work is alive, but not ready.
TEST_F(WorkerProcess, IsReadyOnceItsStagesAreInThePipeline) {
  ASSERT_TRUE(AwaitRegistrations(1));
  const std::string http = coordinator_.registrations()[0].metrics_address();
  EXPECT_THAT(HttpGet(http, "/healthz"), HasSubstr(" 200 OK"));
  EXPECT_THAT(HttpGet(http, "/readyz"), HasSubstr(" 503 "));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  coordinator_.Send(Assignment(folder_ / "pipe"));
  EXPECT_TRUE(Eventually([&] {
    return HttpGet(http, "/readyz").find("loads its stages") !=
           std::string::npos;
  }));
  EXPECT_THAT(HttpGet(http, "/healthz"), HasSubstr(" 200 OK"));
  std::ofstream(folder_ / "pipe").close();
  coordinator_.Send(Assignment(folder_ / "text"));
  EXPECT_TRUE(Eventually([&] {
    return HttpGet(http, "/readyz").find(" 200 OK") != std::string::npos;
  }));
  coordinator_.Send(Shutdown(0));
  EXPECT_EQ(worker_.Wait(seconds(30)).exit_code, 0);
}

// As soon as it is known; what comes before is about no run.
TEST_F(WorkerProcessWithJson, EveryLineOfTheLogSaysWhatItIsAbout) {
  ASSERT_TRUE(AwaitRegistrations(1));
  coordinator_.Send(Assignment(folder_ / "text"));
  ASSERT_TRUE(coordinator_.Await(
      [](const v1::WorkerMessage& message) { return message.has_ready(); }));
  coordinator_.EndSession(absl::AbortedError("not a member any more"));
  ASSERT_TRUE(AwaitRegistrations(2));
  coordinator_.Send(Shutdown(0));
  const CommandResult result = worker_.Wait(seconds(30));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::istringstream lines(result.output);
  std::string about = "no run";
  std::vector<std::string> changes = {about};
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    const bool stages = event.contains("stages");
    EXPECT_EQ(stages, event.contains("generation")) << line;
    about = stages ? "stages" : event.contains("run") ? "run" : "no run";
    if (about != changes.back()) changes.push_back(about);
    const std::string text = event.at("text");
    if (text.starts_with("registered as")) {
      EXPECT_EQ(about, "run") << line;
    }
  }
  EXPECT_THAT(changes, ElementsAre("no run", "run", "stages", "run"));
}

TEST(WorkerCommandLine, AnUnknownLogLevelIsRefused) {
  const CommandResult result = test_support::Run(
      {"gimbal-worker", "--coordinator", "127.0.0.1:1", "--log-level", "loud"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("--log-level"));
}

TEST(WorkerCommandLine, AddressesThatCannotBeAreRefused) {
  const test_support::TempDir folder;
  const std::string token = folder / "token";
  std::ofstream(token) << std::string(64, 'a');
  ASSERT_EQ(chmod(token.c_str(), 0600), 0);
  CommandResult result =
      test_support::Run({"gimbal-worker", "--coordinator", "127.0.0.1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("expected HOST:PORT"));
  const FakeCoordinator other;
  result = test_support::Run({"gimbal-worker", "--coordinator", "127.0.0.1:1",
                              "--listen", other.address()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("--listen: listening on"));
  for (const char* option : {"--listen", "--snapshot-listen"}) {
    result = test_support::Run({"gimbal-worker", "--coordinator", "127.0.0.1:1",
                                "--token-file", token, option, "0.0.0.0:0"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.output, HasSubstr(std::string(option) + " 0.0.0.0:0"));
    EXPECT_THAT(result.output, HasSubstr("--advertise HOST"));
  }
}

}  // namespace
}  // namespace gimbal

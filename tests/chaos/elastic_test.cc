// Clusters whose processes come and go, are slow, or are given up: what a user
// of several machines meets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "tests/support/environment.h"
#include "tests/support/free_port.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::FreePort;
using test_support::ReadText;
using test_support::SlowStages;

std::vector<std::string> Settings(const std::vector<std::string>& settings) {
  std::vector<std::string> argv;
  for (const std::string& setting : settings) {
    argv.insert(argv.end(), {"--set", setting});
  }
  return argv;
}

std::vector<std::string> operator+(std::vector<std::string> a,
                                   const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Elastic : public test_support::TrainFixture {
 protected:
  // A coordinator without a launcher; it serves when this returns.
  std::unique_ptr<Command> StartCoordinator(const std::string& config,
                                            const std::string& run,
                                            const std::string& listen = "") {
    std::vector<std::string> argv = {"gimbal-coordinator", "--config", config,
                                     "--run-dir", folder_ / run};
    if (!listen.empty())
      argv = argv + std::vector<std::string>{"--listen", listen};
    auto coordinator = std::make_unique<Command>(argv);
    while (CoordinatorPid(run) == 0 && coordinator->Running()) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return coordinator;
  }

  std::string AddressOf(const std::string& run) {
    return json::parse(ReadText(folder_ / (run + "/coordinator.json")))
        .at("address");
  }

  void StartWorker(const std::string& address) {
    workers_.push_back(std::make_unique<Command>(
        std::vector<std::string>{"gimbal-worker", "--coordinator", address}));
  }

  std::vector<std::unique_ptr<Command>> workers_;
};

// A worker dies and stays away, its stage moves; another one comes later, and
// the stages spread out again.
TEST_F(Elastic, StagesMoveWithTheNumberOfWorkers) {
  MustTrain("undisturbed",
            Settings({"run.steps=4000", "checkpoint.every=100"}) +
                std::vector<std::string>{"--workers", "1"});
  std::string config = ReadText(folder_ / "undisturbed/config.yaml");
  config = std::regex_replace(config, std::regex("min_workers: \\d+"),
                              "min_workers: 2");
  config = std::regex_replace(config, std::regex("shrink_after: \\w+"),
                              "shrink_after: 1s");
  std::ofstream(folder_ / "shrinking.yaml") << config;
  const auto coordinator =
      StartCoordinator(folder_ / "shrinking.yaml", "moved");
  for (int i = 0; i < 4; ++i) StartWorker(AddressOf("moved"));
  ASSERT_TRUE(WaitForRows(*coordinator, "moved", 150));
  kill(workers_[1]->pid(), SIGKILL);
  ASSERT_TRUE(WaitForRows(*coordinator, "moved", 1500));
  StartWorker(AddressOf("moved"));
  const CommandResult result = coordinator->Wait(seconds(120));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Difference(NumbersOf("moved"), NumbersOf("undisturbed")), "");
  const std::string events = ReadText(folder_ / "moved/events.jsonl");
  EXPECT_EQ(CountOf("stages spread out again", events), 1) << events;
  EXPECT_EQ(CountOf("every stage goes back", events), 0) << events;
}

// Whoever starts a job decides no order.
TEST_F(Elastic, WorkersMayComeHalfAMinuteBeforeTheCoordinator) {
  MustTrain("undisturbed", {"--workers", "1"});
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  for (int i = 0; i < 4; ++i) StartWorker(address);
  std::this_thread::sleep_for(seconds(30));
  for (const auto& worker : workers_) EXPECT_TRUE(worker->Running());
  const auto coordinator =
      StartCoordinator(folder_ / "undisturbed/config.yaml", "late", address);
  const CommandResult result = coordinator->Wait(seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(seconds(20)).exit_code, 0);
  }
  EXPECT_EQ(Difference(NumbersOf("late"), NumbersOf("undisturbed")), "");
}

// All workers of eight stages die at once and come back one by one.
TEST_F(Elastic, StagesThatRestartOneByOneMakeOneGeneration) {
  const auto settings =
      Settings({"run.steps=800", "pipeline.stages=8", "checkpoint.every=50"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  const auto coordinator =
      StartCoordinator(folder_ / "undisturbed/config.yaml", "eight");
  for (int i = 0; i < 8; ++i) StartWorker(AddressOf("eight"));
  ASSERT_TRUE(WaitForRows(*coordinator, "eight", 120));
  for (const auto& worker : workers_) kill(worker->pid(), SIGKILL);
  std::mt19937 random(4);
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(milliseconds(random() % 400));
    StartWorker(AddressOf("eight"));
  }
  const CommandResult result = coordinator->Wait(seconds(120));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Difference(NumbersOf("eight"), NumbersOf("undisturbed")), "");
  const std::string events = ReadText(folder_ / "eight/events.jsonl");
  EXPECT_GT(CountOf("generation 2: worker", events), 0) << events;
  EXPECT_EQ(CountOf("generation 3: worker", events), 0) << events;
}

// The pid of the worker that hosts the second stage, 0 without one.
int PidOfSecondStage(const std::string& run_dir) {
  const json status = json::parse(
      test_support::Run({"gimbal", "status", "--run-dir", run_dir, "--json"})
          .output,
      nullptr, false);
  if (status.is_discarded()) return 0;
  for (const json& worker : status.at("workers")) {
    for (const json& stage : worker.at("stages")) {
      if (stage == 1) return worker.at("pid").get<int>();
    }
  }
  return 0;
}

TEST_F(Elastic, AFlappingWorkerRunsOutOfItsBudget) {
  Command command(TrainArguments(
      "flapping", Settings({"run.steps=100000", "cluster.restart_budget=2"}) +
                      std::vector<std::string>{"--workers", "4"}));
  ASSERT_TRUE(WaitForRows(command, "flapping", 20));
  std::set<int> killed = {0};
  const auto deadline = std::chrono::steady_clock::now() + seconds(150);
  while (command.Running() && std::chrono::steady_clock::now() < deadline) {
    const int pid = PidOfSecondStage(folder_ / "flapping");
    if (killed.insert(pid).second) kill(pid, SIGKILL);
    std::this_thread::sleep_for(milliseconds(100));
  }
  const CommandResult result = command.Wait(seconds(10));
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_EQ(killed.size(), 1 + 3) << result.output;
  const std::string reason = Summary("flapping").at("exit_reason");
  EXPECT_EQ(CountOf("RESTART_BUDGET_EXCEEDED: stage 1", reason), 1) << reason;
}

TEST_F(Elastic, TwoClustersOfOneHostDoNotMeet) {
  const auto settings = Settings({"run.steps=1000"});
  MustTrain("alone", settings + std::vector<std::string>{"--workers", "1"});
  const auto four = settings + std::vector<std::string>{"--workers", "4"};
  Command a(TrainArguments("a", four)), b(TrainArguments("b", four));
  ASSERT_TRUE(WaitForRows(a, "a", 50));
  kill(WorkerPids("a").at(2), SIGKILL);
  EXPECT_EQ(a.Wait(seconds(60)).exit_code, 0);
  EXPECT_EQ(b.Wait(seconds(60)).exit_code, 0);
  EXPECT_EQ(Difference(NumbersOf("a"), NumbersOf("alone")), "");
  EXPECT_EQ(Difference(NumbersOf("b"), NumbersOf("alone")), "");
  EXPECT_TRUE(Summary("b").at("recoveries").empty());
}

// A checkpoint whose write hangs for 20 s holds training up, and is no death;
// nor is a process that hangs for less than a long lease.
TEST_F(Elastic, ASlowDiskIsNoDeath) {
  const auto settings = Settings({"run.steps=1200", "checkpoint.every=400"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  // Or update 400 is done before the pipe is there.
  auto pace = std::make_unique<SlowStages>();
  Command command(TrainArguments(
      "slow", settings + std::vector<std::string>{"--workers", "4"}));
  pace.reset();
  ASSERT_TRUE(WaitForRows(command, "slow", 5));
  // Whoever opens a pipe to write waits for somebody who reads.
  const std::string layers = folder_ / "slow/checkpoints/step-00000400/layers";
  std::filesystem::create_directories(layers);
  const std::string pipe = layers + "/layer-003.safetensors.tmp";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_TRUE(WaitForRows(command, "slow", 795));
  Command patient(TrainArguments(
      "patient", settings + Settings({"cluster.lease=60s"}) +
                     std::vector<std::string>{"--workers", "2"}));
  ASSERT_TRUE(WaitForRows(patient, "patient", 5));
  const int hung = WorkerPids("patient").at(1);
  kill(hung, SIGSTOP);
  std::this_thread::sleep_for(seconds(23));
  kill(hung, SIGCONT);
  EXPECT_EQ(patient.Wait(seconds(60)).exit_code, 0);
  EXPECT_TRUE(Summary("patient").at("recoveries").empty())
      << Summary("patient").at("recoveries");
  EXPECT_TRUE(command.Running());
  {
    std::ifstream reader(pipe, std::ios::binary);
    std::string all(std::istreambuf_iterator<char>(reader), {});
  }
  const CommandResult result = command.Wait(seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.output << Logs("slow");
  EXPECT_EQ(Difference(NumbersOf("slow"), NumbersOf("undisturbed")), "");
  EXPECT_TRUE(Summary("slow").at("recoveries").empty());
  const std::string events = ReadText(folder_ / "slow/events.jsonl");
  EXPECT_EQ(CountOf("checkpoint 400 was given up", events), 1)
      << "a pipe cannot be synchronised: " << events;
}

// Schedulers announce the end of a job to any one process.
TEST_F(Elastic, SignalsThatAreNotListedEndNothing) {
  const auto settings = Settings({"run.steps=1500"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  Command command(TrainArguments(
      "signalled", settings + Settings({"cluster.stop_signals=[USR2]"}) +
                       std::vector<std::string>{"--workers", "4"}));
  ASSERT_TRUE(WaitForRows(command, "signalled", 50));
  const std::vector<int> workers = WorkerPids("signalled");
  ASSERT_EQ(workers.size(), 4u);
  command.Signal(SIGUSR1);
  kill(CoordinatorPid("signalled"), SIGTERM);
  for (const int pid : workers) kill(pid, SIGUSR1);
  ASSERT_TRUE(WaitForRows(command, "signalled", 200));
  kill(workers[2], SIGUSR2);
  EXPECT_EQ(command.Wait(seconds(60)).exit_code, 4);
  EXPECT_TRUE(Summary("signalled").at("recoveries").empty());
  MustTrain("signalled", settings + std::vector<std::string>{"--resume"});
  EXPECT_EQ(Difference(NumbersOf("signalled"), NumbersOf("undisturbed")), "");
}

// What a coordinator has agreed to holds for the next one, and what it did not
// hear of is asked for again.
TEST_F(Elastic, APauseAndAStopOutliveTheCoordinator) {
  const auto settings = Settings({"run.steps=3000", "checkpoint.every=200"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  const auto control = [&](const char* verb) {
    return test_support::Run({"gimbal", verb, "--run-dir", folder_ / "told"})
        .exit_code;
  };
  const auto wait_for = [&](const std::string& what, int64_t times) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    while (CountOf(what, ReadText(folder_ / "told/events.jsonl")) < times) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
      std::this_thread::sleep_for(milliseconds(10));
    }
  };
  auto pace = std::make_unique<SlowStages>();
  auto command = std::make_unique<Command>(TrainArguments(
      "told", settings + std::vector<std::string>{"--workers", "4"}));
  ASSERT_TRUE(WaitForRows(*command, "told", 120));
  ASSERT_EQ(control("pause"), 0);
  wait_for("run is PAUSED", 1);
  ASSERT_GT(CoordinatorPid("told"), 0);
  kill(CoordinatorPid("told"), SIGKILL);
  wait_for("run is PAUSED", 2);
  ASSERT_EQ(control("resume"), 0);
  ASSERT_EQ(control("drain"), 0);
  if (const int pid = CoordinatorPid("told"); pid > 0) kill(pid, SIGKILL);
  EXPECT_EQ(command->Wait(seconds(60)).exit_code, 4);

  command = std::make_unique<Command>(TrainArguments(
      "told",
      settings + std::vector<std::string>{"--resume", "--workers", "4"}));
  wait_for("run is RUNNING", 5);
  // It cannot hear that it is to stop.
  const int coordinator = CoordinatorPid("told");
  ASSERT_GT(coordinator, 0);
  kill(coordinator, SIGSTOP);
  command->Signal(SIGINT);
  std::this_thread::sleep_for(milliseconds(500));
  kill(coordinator, SIGKILL);
  EXPECT_EQ(command->Wait(seconds(60)).exit_code, 4);
  pace.reset();
  MustTrain("told", settings + std::vector<std::string>{"--resume"});
  EXPECT_EQ(Difference(NumbersOf("told"), NumbersOf("undisturbed")), "");
}

// A job that is preempted while the run recovers, or loses a process while it
// stops, once ended at the older checkpoint, or none.
TEST_F(Elastic, AStopIsCarriedOutWhateverIsLost) {
  const auto settings = Settings({"run.steps=3000", "checkpoint.every=0"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  auto pace = std::make_unique<SlowStages>();
  int64_t rows = 0;
  const auto stopped_by = [&](const std::function<void(Command&)>& stop) {
    auto argv = settings + std::vector<std::string>{"--workers", "4"};
    if (rows > 0) argv.push_back("--resume");
    rows += 50;
    Command command(TrainArguments("stopped", argv));
    ASSERT_TRUE(WaitForRows(command, "stopped", rows));
    ASSERT_EQ(WorkerPids("stopped").size(), 4u);
    stop(command);
    const CommandResult result = command.Wait(seconds(60));
    EXPECT_EQ(result.exit_code, 4) << result.output << Logs("stopped");
    EXPECT_GE(Summary("stopped").at("steps"), rows);
    rows = Summary("stopped").at("steps");
  };
  const auto moment = [] { std::this_thread::sleep_for(milliseconds(20)); };
  stopped_by([&](Command& command) {
    kill(WorkerPids("stopped")[1], SIGKILL);
    moment();
    command.Signal(SIGTERM);
  });
  stopped_by([&](Command&) {
    const std::vector<int> workers = WorkerPids("stopped");
    kill(CoordinatorPid("stopped"), SIGKILL);
    moment();
    kill(workers[2], SIGTERM);
  });
  stopped_by([&](Command& command) {
    kill(CoordinatorPid("stopped"), SIGKILL);
    moment();
    command.Signal(SIGTERM);
  });
  stopped_by([&](Command&) {
    const std::vector<int> workers = WorkerPids("stopped");
    for (int times = 0; times < 2; ++times) {
      for (const int pid : workers) kill(pid, SIGUSR1);
      moment();
    }
  });
  pace.reset();
  MustTrain("stopped", settings + std::vector<std::string>{"--resume"});
  EXPECT_EQ(Difference(NumbersOf("stopped"), NumbersOf("undisturbed")), "");
}

// One that stays away together with the coordinator's first life.
TEST_F(Elastic, FewerWorkersGoOnUnderANewCoordinator) {
  const auto settings =
      Settings({"run.steps=1000", "cluster.min_workers=2",
                "cluster.shrink_after=1s", "checkpoint.every=100"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  const std::string config = folder_ / "undisturbed/config.yaml";
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  auto coordinator = StartCoordinator(config, "fewer", address);
  for (int i = 0; i < 4; ++i) StartWorker(address);
  ASSERT_TRUE(WaitForRows(*coordinator, "fewer", 150));
  kill(coordinator->pid(), SIGKILL);
  kill(workers_[1]->pid(), SIGKILL);
  coordinator->Wait(seconds(10));
  coordinator = std::make_unique<Command>(std::vector<std::string>{
      "gimbal-coordinator", "--config", config, "--run-dir", folder_ / "fewer",
      "--listen", address, "--resume"});
  const CommandResult result = coordinator->Wait(seconds(120));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Difference(NumbersOf("fewer"), NumbersOf("undisturbed")), "");
}

TEST_F(Elastic, AMachineUnderFullLoadIsNoDeath) {
  const auto settings = Settings({"run.steps=200"});
  MustTrain("undisturbed",
            settings + std::vector<std::string>{"--workers", "1"});
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (unsigned i = 0; i < 6 * std::thread::hardware_concurrency(); ++i) {
    load.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  Command command(TrainArguments(
      "loaded", settings + std::vector<std::string>{"--workers", "4"}));
  const CommandResult result = command.Wait(seconds(240));
  stop = true;
  for (std::thread& thread : load) thread.join();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Difference(NumbersOf("loaded"), NumbersOf("undisturbed")), "");
  EXPECT_TRUE(Summary("loaded").at("recoveries").empty())
      << Summary("loaded").dump();
}

}  // namespace
}  // namespace gimbal

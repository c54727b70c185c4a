// The contract with the real programs: `gimbal train` starts a coordinator and
// workers as processes, and the numbers depend on nothing but config and data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/support/command.h"
#include "tests/support/environment.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::Numbers;
using test_support::ReadText;
using test_support::SlowStages;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Gt;
using ::testing::Lt;

using Train = test_support::TrainFixture;

TEST_F(Train, WorkersChangeNothing) {
  struct Case {
    const char* schedule;
    int stages;
    int accumulate;
  };
  for (const Case& c : std::vector<Case>{{"async-1f1b", 1, 1},
                                         {"async-1f1b", 2, 1},
                                         {"async-1f1b", 4, 1},
                                         {"async-1f1b", 4, 3},
                                         {"async-1f1b", 8, 1},
                                         {"1f1b", 4, 4},
                                         {"gpipe", 4, 4}}) {
    const std::string name = std::string(c.schedule) + "-" +
                             std::to_string(c.stages) + "-" +
                             std::to_string(c.accumulate);
    SCOPED_TRACE(name);
    const auto numbers = [&](int workers) {
      const std::string run = name + "-on-" + std::to_string(workers);
      if (std::filesystem::exists(folder_ / run)) return NumbersOf(run);
      MustTrain(run, {"--workers", std::to_string(workers), "--set",
                      std::string("pipeline.schedule=") + c.schedule, "--set",
                      "pipeline.stages=" + std::to_string(c.stages), "--set",
                      "batch.accumulate=" + std::to_string(c.accumulate)});
      return NumbersOf(run);
    };
    const Numbers one = numbers(1);
    EXPECT_FALSE(one.files.empty());
    EXPECT_EQ(std::count(one.metrics.begin(), one.metrics.end(), '\n'), 40);
    for (const int workers : {2, c.stages}) {
      if (workers > c.stages) continue;
      EXPECT_EQ(Difference(numbers(workers), one), "") << workers << " workers";
    }
  }
}

TEST_F(Train, LoadChangesNothing) {
  MustTrain("quiet", {"--workers", "4"});
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i) {
    load.emplace_back([&stop] {
      while (!stop) {
      }
    });
  }
  MustTrain("loaded", {"--workers", "4"});
  stop = true;
  for (std::thread& thread : load) thread.join();
  EXPECT_EQ(Difference(NumbersOf("loaded"), NumbersOf("quiet")), "");
}

TEST_F(Train, ThirtyTwoStagesOnOneAndTwoWorkers) {
  const std::vector<std::string> deep = {"--set", "pipeline.stages=32",
                                         "--set", "model.layers=32",
                                         "--set", "run.steps=50"};
  std::vector<std::string> one = deep, two = deep;
  one.insert(one.end(), {"--workers", "1"});
  two.insert(two.end(), {"--workers", "2"});
  MustTrain("one", one);
  MustTrain("two", two);
  EXPECT_EQ(Difference(NumbersOf("one"), NumbersOf("two")), "");
  const json summary = json::parse(ReadText(folder_ / "two/summary.json"));
  for (const json& stage : summary.at("stages")) {
    const int expected = 31 - stage.at("stage").get<int>();
    EXPECT_EQ(stage.at("delay_expected"), expected);
    EXPECT_EQ(stage.at("staleness_mean"), expected);
    EXPECT_EQ(stage.at("staleness_max"), expected);
  }
}

// The whole cluster is killed at a random moment and resumed, several times
// over one run, until it ends by itself.
TEST_F(Train, KilledClustersResumeWithTheSameNumbers) {
  const std::vector<std::string> longer = {"--set", "run.steps=400",
                                           "--set", "pipeline.stages=4",
                                           "--set", "checkpoint.keep=2"};
  MustTrain("whole", longer);
  const unsigned seed = std::random_device()();
  std::printf("seed of the moments of death: %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3; ++round) {
    const std::string run = "killed" + std::to_string(round);
    std::vector<std::string> arguments = longer;
    for (int kills = 0; kills < 3; ++kills) {
      Command command(TrainArguments(run, arguments));
      const auto rows = static_cast<int64_t>(100 * kills + 15 + random() % 80);
      ASSERT_TRUE(WaitForRows(command, run, rows)) << Logs(run);
      // Not always at the same distance from a checkpoint.
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      command.KillAll();
      arguments = longer;
      arguments.push_back("--resume");
    }
    MustTrain(run, arguments);
    EXPECT_THAT(StartsOf(run), Contains(AllOf(Gt(0), Lt(400))));
    EXPECT_EQ(Difference(NumbersOf(run), NumbersOf("whole")), "")
        << "seed " << seed << "\n"
        << ReadText(folder_ / (run + "/events.jsonl"));
  }
}

// Found by the test above: killed between COMMIT and `latest`, a finished run
// kept naming the checkpoint before the last one.
TEST_F(Train, ResumingRepairsLatest) {
  MustTrain("whole", {});
  const std::string latest = folder_ / "whole/checkpoints/latest";
  const std::string newest = ReadText(latest);
  EXPECT_EQ(newest, "step-00000040\n");
  std::ofstream(latest) << "step-00000030\n";
  MustTrain("whole", {"--resume"});
  EXPECT_EQ(ReadText(latest), newest);
}

TEST_F(Train, InterruptedRunsStopAtACheckpointAndResume) {
  const std::vector<std::string> longer = {"--set", "run.steps=2000"};
  std::vector<std::string> resume = longer;
  resume.push_back("--resume");
  MustTrain("whole", longer);
  for (const std::string run : {"stopped", "drained"}) {
    auto pace = std::make_unique<SlowStages>();
    Command command(TrainArguments(run, longer));
    ASSERT_TRUE(WaitForRows(command, run, 20)) << Logs(run);
    if (run == "stopped") {
      command.Signal(SIGTERM);
    } else {
      const CommandResult drain =
          test_support::Run({"gimbal", "drain", "--run-dir", folder_ / run});
      EXPECT_EQ(drain.exit_code, 0) << drain.output;
    }
    const CommandResult ended = command.Wait(std::chrono::seconds(60));
    EXPECT_EQ(ended.exit_code, 4) << ended.output << Logs(run);
    pace.reset();
    MustTrain(run, resume);
    EXPECT_EQ(Difference(NumbersOf(run), NumbersOf("whole")), "") << run;
  }
}

// KILL ends it; STOP leaves a process that says nothing and must be killed.
TEST_F(Train, ADeadOrHungWorkerIsReplacedAndTheNumbersStayTheSame) {
  const std::vector<std::string> longer = {"--set", "run.steps=1500"};
  MustTrain("whole", longer);
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const std::string run = signal == SIGKILL ? "killed" : "hung";
    Command command(TrainArguments(run, longer));
    ASSERT_TRUE(WaitForRows(command, run, 20)) << Logs(run);
    const CommandResult status = test_support::Run(
        {"gimbal", "status", "--run-dir", folder_ / run, "--json"});
    ASSERT_EQ(status.exit_code, 0) << status.output;
    const json view = json::parse(status.output);
    const json& worker = view.at("workers").at(1);
    ASSERT_EQ(kill(worker.at("pid").get<int>(), signal), 0);
    const CommandResult result = command.Wait(std::chrono::seconds(120));
    EXPECT_EQ(result.exit_code, 0) << result.output << Logs(run);
    EXPECT_EQ(Difference(NumbersOf(run), NumbersOf("whole")), "") << run;
    const json summary = json::parse(ReadText(folder_ / run + "/summary.json"));
    EXPECT_EQ(summary.at("recoveries").size(), 1u) << summary.dump(1);
    // The other three processes went on, and only the lost stage went back.
    const std::string events = ReadText(folder_ / (run + "/events.jsonl"));
    EXPECT_EQ(CountOf("was admitted", events), 5) << events;
    EXPECT_EQ(CountOf("stage 1 is replayed from update", events), 1) << events;
    EXPECT_EQ(CountOf("every stage goes back", events), 0) << events;
    // Counted from the start of the run, whoever hosts the stages: update 1
    // and every fourth one.
    for (const json& stage : summary.at("stages")) {
      EXPECT_EQ(stage.at("refreshes"), 376) << summary.dump(1);
    }
  }
}

}  // namespace
}  // namespace gimbal

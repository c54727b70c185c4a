// Workers die in runs whose disk has no checkpoint, or has lost it: they go on
// from what is kept in other workers' memories, with the same numbers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::ReadText;

constexpr int64_t kUpdates = 1600;
constexpr int64_t kEvery = 20;

class MemoryCuts : public test_support::TrainFixture {
 protected:
  std::vector<std::string> Arguments(const std::string& run,
                                     int64_t checkpoint_every) {
    return TrainArguments(
        run, {"--workers", "4", "--set", "cluster.restart_budget=20", "--set",
              "run.steps=" + std::to_string(kUpdates), "--set",
              "cluster.peer_snapshot_every=" + std::to_string(kEvery), "--set",
              "checkpoint.every=" + std::to_string(checkpoint_every)});
  }

  void TrainUndisturbed() {
    MustTrain("undisturbed", {"--workers", "1", "--set",
                              "run.steps=" + std::to_string(kUpdates), "--set",
                              "checkpoint.every=0"});
  }

  // By stage.
  std::vector<int> Pids(const std::string& run) {
    const CommandResult status = test_support::Run(
        {"gimbal", "status", "--run-dir", folder_ / run, "--json"});
    std::vector<int> pids(4);
    const json view = json::parse(status.output, nullptr, false);
    if (view.is_discarded()) return pids;
    for (const json& worker : view.at("workers")) {
      for (const int stage : worker.at("stages")) {
        pids[static_cast<size_t>(stage)] = worker.at("pid");
      }
    }
    return pids;
  }

  // At once, when the run's metrics have so many rows.
  void KillStages(Command& command, const std::string& run, int64_t rows,
                  const std::vector<size_t>& stages) {
    ASSERT_TRUE(WaitForRows(command, run, rows)) << Logs(run);
    const std::vector<int> pids = Pids(run);
    for (const size_t stage : stages) {
      ASSERT_GT(pids[stage], 0) << "stage " << stage;
    }
    for (const size_t stage : stages) kill(pids[stage], SIGKILL);
  }

  void ExpectTheSameNumbers(Command& command, const std::string& run) {
    const CommandResult result = command.Wait(std::chrono::seconds(120));
    ASSERT_EQ(result.exit_code, 0) << result.output << Logs(run);
    EXPECT_EQ(Difference(NumbersOf(run), NumbersOf("undisturbed")), "");
  }

  std::string Events(const std::string& run) {
    return ReadText(folder_ / (run + "/events.jsonl"));
  }

  std::vector<json> Recoveries(const std::string& run) {
    return Summary(run).at("recoveries");
  }
};

TEST_F(MemoryCuts, LostStagesAreReplayedFromMemory) {
  TrainUndisturbed();
  Command command(Arguments("killed", 1000000));
  KillStages(command, "killed", 150, {2});
  KillStages(command, "killed", 300, {1, 2});
  KillStages(command, "killed", 450, {3, 0});
  ExpectTheSameNumbers(command, "killed");
  const std::string events = Events("killed");
  EXPECT_EQ(CountOf("every stage goes back", events), 0) << events;
  EXPECT_GE(CountOf(", kept in memory", events), 3) << events;
  EXPECT_EQ(CountOf("is committed", events), 1) << events;
  const std::vector<json> recoveries = Recoveries("killed");
  EXPECT_GE(recoveries.size(), 3u);
  for (const json& recovery : recoveries) {
    std::printf("%s\n", recovery.dump().c_str());
    EXPECT_LT(recovery.at("steps_replayed").get<int64_t>(), 2 * kEvery);
  }
}

TEST_F(MemoryCuts, AWorkerIsLostAndSoIsTheDisk) {
  TrainUndisturbed();
  Command command(Arguments("wiped", 50));
  ASSERT_TRUE(WaitForRows(command, "wiped", 230));
  EXPECT_GE(CountOf("is committed", Events("wiped")), 1);
  const std::string checkpoints = folder_ / "wiped/checkpoints";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints)) {
    std::filesystem::remove_all(entry.path(), ignored);
  }
  KillStages(command, "wiped", 230, {1});
  ExpectTheSameNumbers(command, "wiped");
  EXPECT_GE(CountOf("kept in memory", Events("wiped")), 1) << Events("wiped");
}

// The next coordinator learns from the workers what they keep.
TEST_F(MemoryCuts, TheCoordinatorIsLostFirst) {
  TrainUndisturbed();
  Command command(Arguments("coordinator", 1000000));
  ASSERT_TRUE(WaitForRows(command, "coordinator", 150));
  ASSERT_GT(CoordinatorPid("coordinator"), 0);
  kill(CoordinatorPid("coordinator"), SIGKILL);
  const auto taken_up = [&] {
    return CountOf("run is RUNNING", Events("coordinator")) == 2;
  };
  for (int i = 0; i < 1000 && !taken_up(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_TRUE(taken_up()) << Logs("coordinator");
  KillStages(command, "coordinator", 400, {1});
  ExpectTheSameNumbers(command, "coordinator");
  const std::string events = Events("coordinator");
  EXPECT_EQ(CountOf("every stage goes back", events), 0) << events;
  EXPECT_GE(CountOf(", kept in memory", events), 1) << events;
}

// A stage whose life began in memory cannot tell a new coordinator what it asks
// for, from the checkpoint on.
TEST_F(MemoryCuts, WhoStartedFromMemoryIsNotTakenUp) {
  TrainUndisturbed();
  Command command(Arguments("alone", 1000000));
  KillStages(command, "alone", 150, {1});
  const auto again = [&] {
    return CountOf("run is RUNNING", Events("alone")) == 2;
  };
  for (int i = 0; i < 1000 && !again(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_TRUE(again()) << Logs("alone");
  const std::vector<int> pids = Pids("alone");
  kill(CoordinatorPid("alone"), SIGKILL);
  for (const size_t stage : {0, 2, 3}) kill(pids[stage], SIGKILL);
  ExpectTheSameNumbers(command, "alone");
}

}  // namespace
}  // namespace gimbal

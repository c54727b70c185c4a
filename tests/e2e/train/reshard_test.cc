// Runs that go over to another number of stages, with the real programs: what
// they go on with, and that nothing but config and data shows in the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/command.h"
#include "tests/support/free_port.h"
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
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class ReshardTest : public test_support::TrainFixture {
 protected:
  CommandResult Reshard(const std::string& run, int stages,
                        const std::string& out,
                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {
        "gimbal",   "checkpoint",           "reshard", folder_ / run,
        "--stages", std::to_string(stages), "--out",   folder_ / out};
    argv.insert(argv.end(), more.begin(), more.end());
    return test_support::Run(argv);
  }
  void MustReshard(const std::string& run, int stages, const std::string& out,
                   int64_t update) {
    const CommandResult made =
        Reshard(run, stages, out, {"--update", std::to_string(update)});
    ASSERT_EQ(made.exit_code, 0) << made.output;
    ASSERT_THAT(made.output, HasSubstr("--resume"));
  }

  std::vector<std::string> ResumeArguments(
      const std::string& run, const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {"gimbal", "train", "--resume", "--run-dir",
                                     folder_ / run};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  void MustResume(const std::string& run,
                  const std::vector<std::string>& more = {}) {
    const CommandResult result = test_support::Run(ResumeArguments(run, more));
    ASSERT_EQ(result.exit_code, 0) << result.output << Logs(run);
  }

  std::vector<json> Rows(const std::string& run) {
    std::istringstream text(ReadText(folder_ / (run + "/metrics.jsonl")));
    std::vector<json> rows;
    for (std::string line; std::getline(text, line);) {
      rows.push_back(json::parse(line));
    }
    return rows;
  }

  // Update after which the run went over, as it was recorded.
  int64_t OriginOf(const std::string& run) {
    const std::string text = ReadText(folder_ / (run + "/events.jsonl"));
    std::smatch found;
    const std::regex decision("stages from update ([0-9]+) on, before");
    if (!std::regex_search(text, found, decision)) return -1;
    return std::stoll(found[1]) - 1;
  }

  // Rows beyond the origin are of the new stages, with staleness from 0 again.
  void ExpectStaleness(const std::string& run, int64_t before, int64_t stages,
                       int64_t origin) {
    for (const json& row : Rows(run)) {
      const int64_t step = row.at("step");
      const auto staleness = row.at("staleness").get<std::vector<int64_t>>();
      if (step <= origin) {
        ASSERT_EQ(staleness.size(), static_cast<size_t>(before)) << step;
        continue;
      }
      ASSERT_EQ(staleness.size(), static_cast<size_t>(stages)) << step;
      for (int64_t s = 0; s < stages; ++s) {
        ASSERT_EQ(staleness[static_cast<size_t>(s)],
                  std::min(stages - 1 - s, step - origin - 1))
            << "stage " << s << ", update " << step;
      }
    }
  }
};

// No stage has a delay, so the number of stages must not be seen: weights,
// moments, bases, data position, learning rate, all of it comes along.
TEST_F(ReshardTest, ASynchronousRunKeepsEveryNumber) {
  MustTrain("four", {"--set", "pipeline.schedule=1f1b", "--set",
                     "batch.accumulate=4", "--set", "checkpoint.keep=9"});
  MustReshard("four", 2, "two", 10);
  MustResume("two");
  MustReshard("two", 1, "one", 20);
  MustReshard("two", 4, "wide", 20);
  MustResume("one");
  MustResume("wide", {"--workers", "2"});
  const std::vector<json> whole = Rows("four");
  const Numbers expected = NumbersOf("four");
  for (const char* run : {"two", "one", "wide"}) {
    const std::vector<json> rows = Rows(run);
    ASSERT_EQ(rows.size(), whole.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const char* key : {"step", "loss", "lr", "tokens", "valid_loss"}) {
        EXPECT_EQ(rows[i].value(key, json()), whole[i].value(key, json()))
            << run << " " << key << " " << i;
      }
    }
    for (const auto& [file, sum] : NumbersOf(run).files) {
      EXPECT_EQ(sum, expected.files.at(file)) << run << " " << file;
    }
  }
}

struct Method {
  const char* name;
  std::vector<int> stages;
  std::vector<std::string> set;
};

// An asynchronous run goes over, on one worker, on one per stage, and killed
// and resumed on the way: one sequence of numbers.
TEST_F(ReshardTest, AnAsynchronousRunGoesOverExactly) {
  const unsigned seed = std::random_device()();
  std::printf("seed of the moments of death: %u\n", seed);
  std::mt19937 random(seed);
  for (const Method& method : std::vector<Method>{
           {"rotation", {2, 8}, {}},
           {"feedback",
            {8},
            {"optimizer.name=adamw", "staleness.mitigation=[error_feedback]"}},
           {"muon", {2}, {"optimizer.name=muon"}},
           {"correction",
            {8},
            {"optimizer.name=adamw", "pipeline.stash=none",
             "staleness.mitigation=[discrepancy_correction]"}}}) {
    SCOPED_TRACE(method.name);
    const std::string name = method.name;
    std::vector<std::string> arguments = {"--set", "run.steps=150", "--set",
                                          "checkpoint.keep=99"};
    for (const std::string& set : method.set) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    MustTrain(name, arguments);
    for (const int stages : method.stages) {
      const std::string base = name + "-" + std::to_string(stages);
      for (const char* kind : {"-one", "-all", "-killed"}) {
        MustReshard(name, stages, base + kind, 20);
      }
      MustResume(base + "-one", {"--workers", "1"});
      MustResume(base + "-all", {"--workers", std::to_string(stages)});
      {
        Command command(ResumeArguments(base + "-killed"));
        ASSERT_TRUE(WaitForRows(command, base + "-killed", 30 + random() % 80))
            << Logs(base + "-killed");
        command.KillAll();
      }
      MustResume(base + "-killed");
      ExpectStaleness(base + "-one", 4, stages, 20);
      const Numbers one = NumbersOf(base + "-one");
      EXPECT_FALSE(one.files.empty());
      EXPECT_EQ(Difference(NumbersOf(base + "-all"), one), "");
      EXPECT_EQ(Difference(NumbersOf(base + "-killed"), one), "")
          << "seed " << seed;
    }
  }
}

// --resume with another number of stages is the same, in place.
TEST_F(ReshardTest, AResumedRunGoesOverInPlace) {
  const std::vector<std::string> longer = {"--set", "run.steps=1500",
                                           "--set", "checkpoint.keep=99",
                                           "--set", "checkpoint.every=50"};
  {
    Command command(TrainArguments("run", longer));
    ASSERT_TRUE(WaitForRows(command, "run", 120)) << Logs("run");
    command.KillAll();
  }
  fs::copy(folder_ / "run", folder_ / "copy", fs::copy_options::recursive);
  const std::vector<std::string> two = {"--set", "pipeline.stages=2"};
  // Killed while it goes over, at whatever moment.
  std::mt19937 random(std::random_device{}());
  for (int death = 0; death < 5; ++death) {
    Command command(ResumeArguments("run", two));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    command.KillAll();
  }
  {
    Command command(ResumeArguments("run", two));
    const auto over = [&] {
      return OriginOf("run") > 0 &&
             CountOf("stages: 2", ReadText(folder_ / "run/config.yaml")) == 1;
    };
    while (command.Running() && !over()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 500));
    command.KillAll();
  }
  // With the config that was changed, or with the first one and the change.
  MustResume("run");
  const int64_t origin = OriginOf("run");
  ASSERT_GT(origin, 0);
  ExpectStaleness("run", 4, 2, origin);
  ASSERT_EQ(Reshard("copy", 2, "other").exit_code, 0);
  ASSERT_EQ(OriginOf("other"), origin);
  std::vector<std::string> arguments = longer;
  arguments.insert(arguments.end(), {"--resume", two[0], two[1]});
  MustTrain("other", arguments);
  EXPECT_EQ(Difference(NumbersOf("other"), NumbersOf("run")), "");
  const json summary = json::parse(ReadText(folder_ / "run/summary.json"));
  ASSERT_EQ(summary.at("stages").size(), 2u);
  EXPECT_EQ(summary.at("stages")[0].at("staleness_mean"), 1.0);
  EXPECT_EQ(summary.at("stages")[0].at("staleness_max"), 1);
  const CommandResult compared = test_support::Run(
      {"gimbal", "compare", folder_ / "run", folder_ / "other"});
  EXPECT_EQ(compared.exit_code, 0) << compared.output;
}

// Workers outlive their coordinator with the stages they hold. Another one that
// comes with other stages must not take these for its own.
TEST_F(ReshardTest, WhatWorkersHoldOfFormerStagesIsDropped) {
  const auto write = [this](const std::string& name, const char* stages) {
    std::ofstream file(folder_ / name);
    file << std::regex_replace(
        std::regex_replace(ReadText(folder_ / "config.yaml"),
                           std::regex("steps: 40"), "steps: 300"),
        std::regex("stages: 4"), stages);
    return folder_ / name;
  };
  const std::string four = write("four.yaml", "stages: 4");
  const std::string two = write("two.yaml", "stages: 2");
  const std::string address =
      "127.0.0.1:" + std::to_string(test_support::FreePort());
  const auto coordinator = [&](const std::string& config) {
    return std::vector<std::string>{
        "gimbal-coordinator", "--config", config,     "--run-dir",
        folder_ / "run",      "--resume", "--listen", address};
  };
  std::vector<std::unique_ptr<Command>> workers;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(std::make_unique<Command>(
        std::vector<std::string>{"gimbal-worker", "--coordinator", address}));
  }
  {
    Command first(coordinator(four));
    ASSERT_TRUE(WaitForRows(first, "run", 100))
        << first.Wait(std::chrono::seconds(5)).output;
    first.KillAll();
  }
  ASSERT_EQ(Reshard("run", 2, "other").exit_code, 0);
  Command second(coordinator(two));
  const CommandResult result = second.Wait(std::chrono::seconds(120));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  MustResume("other");
  ASSERT_EQ(OriginOf("other"), OriginOf("run"));
  ExpectStaleness("run", 4, 2, OriginOf("run"));
  EXPECT_EQ(Difference(NumbersOf("run"), NumbersOf("other")), "");
}

// What is older than the origin belongs to the former stages.
TEST_F(ReshardTest, ADamagedOriginIsSaidWithItsCure) {
  MustTrain("run", {});
  MustReshard("run", 4, "copy", 20);
  // In place, so that older checkpoints stay beside the origin.
  ASSERT_EQ(
      test_support::Run(ResumeArguments("run", {"--set", "pipeline.stages=2"}))
          .exit_code,
      0);
  ASSERT_EQ(OriginOf("run"), 40);
  const std::string layer =
      folder_ / "run/checkpoints/step-00000040/layers/layer-003.safetensors";
  std::string bytes = ReadText(layer);
  bytes.back() ^= 1;
  fs::remove(layer);
  std::ofstream(layer, std::ios::binary) << bytes;
  const CommandResult refused = test_support::Run(ResumeArguments("run"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the checkpoint of update 40"));
  EXPECT_THAT(refused.output, HasSubstr("from update 30"));
  EXPECT_EQ(ReadText(folder_ / "run/checkpoints/latest"), "step-00000040\n");
  ASSERT_EQ(Reshard("run", 2, "cured").exit_code, 0);
  MustResume("cured");
  EXPECT_EQ(Rows("cured").size(), 40u);
  ExpectStaleness("cured", 4, 2, 30);
}

TEST_F(ReshardTest, BadInputEndsWith2AndMakesNothing) {
  {
    Command running(TrainArguments("run", {"--set", "run.steps=1000000"}));
    ASSERT_TRUE(WaitForRows(running, "run", 25));
    const CommandResult held = Reshard("run", 2, "out");
    EXPECT_EQ(held.exit_code, 2) << held.output;
    EXPECT_THAT(held.output, HasSubstr("already runs this folder"));
    running.KillAll();
  }
  {
    Command running(TrainArguments(
        "none", {"--set", "run.steps=1000000", "--set", "checkpoint.every=0"}));
    ASSERT_TRUE(WaitForRows(running, "none", 5));
    running.KillAll();
  }
  const struct {
    const char* run;
    int stages;
    std::vector<std::string> more;
    const char* message;
  } kCases[] = {
      {"run", 9, {}, "9 stages need at least 9 layers, model.layers is 8"},
      {"run", 2, {"--split", "3,4"}, "sums to 7, model.layers is 8"},
      {"run", 2, {"--update", "7"}, "no committed checkpoint of update 7"},
      {"run", 0, {}, "--stages"},
      {"none", 2, {}, "no committed checkpoint"},
      {"missing", 2, {}, "not a run folder"},
  };
  for (const auto& [run, stages, more, message] : kCases) {
    const CommandResult result = Reshard(run, stages, "out", more);
    EXPECT_EQ(result.exit_code, 2) << message << "\n" << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  const CommandResult inside = Reshard("run", 2, "run/checkpoints/out");
  EXPECT_EQ(inside.exit_code, 2);
  EXPECT_THAT(inside.output, HasSubstr("lies inside"));
  const CommandResult there = Reshard("run", 2, "none");
  EXPECT_EQ(there.exit_code, 2);
  EXPECT_THAT(there.output, HasSubstr("is there already"));
  const CommandResult wide =
      test_support::Run(ResumeArguments("run", {"--set", "pipeline.stages=9"}));
  EXPECT_EQ(wide.exit_code, 2) << wide.output;
}

}  // namespace
}  // namespace gimbal

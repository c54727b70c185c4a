// `gimbal doctor` as a user runs it, and scripts for Slurm as shells read them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using test_support::Command;
using test_support::CommandResult;
using test_support::ReadText;

class Doctor : public test_support::TrainFixture {
 protected:
  // The health of each check; exit code under "code".
  std::map<std::string, std::string> Examine(std::vector<std::string> more) {
    std::vector<std::string> argv = {"gimbal", "doctor", "--json"};
    argv.insert(argv.end(), more.begin(), more.end());
    const CommandResult result = test_support::Run(argv);
    std::map<std::string, std::string> healths = {
        {"code", std::to_string(result.exit_code)}};
    const json report = json::parse(result.output, nullptr, false);
    if (report.is_discarded()) {
      ADD_FAILURE() << result.output;
      return healths;
    }
    for (const json& check : report.at("checks")) {
      EXPECT_NE(check.at("text"), "");
      std::string& health = healths[check.at("check")];
      if (health.empty() || health == "ok") health = check.at("health");
    }
    return healths;
  }
};

TEST_F(Doctor, AFitNodePassesAndNothingIsLeftBehind) {
  auto healths =
      Examine({folder_ / "config.yaml", "--run-dir", folder_ / "run"});
  EXPECT_EQ(healths["code"], "0");
  for (const char* check : {"gpu", "ports", "run folder", "checkpoints", "disk",
                            "data", "memory"}) {
    EXPECT_EQ(healths[check], "ok") << check;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  EXPECT_EQ(Examine({})["code"], "0");
}

TEST_F(Doctor, WhatIsWrongFailsAndTheRestIsStillChecked) {
  std::filesystem::remove(folder_ / "corpus.txt");
  auto healths = Examine({folder_ / "config.yaml", "--run-dir",
                          folder_ / "config.yaml/run", "--gpus", "99"});
  EXPECT_EQ(healths["code"], "2");
  for (const char* check : {"data", "gpu", "run folder"}) {
    EXPECT_EQ(healths[check], "fail") << check;
  }
  EXPECT_EQ(healths["ports"], "ok");
  const CommandResult typo =
      test_support::Run({"gimbal", "doctor", folder_ / "none.yaml"});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_NE(typo.output.find("none.yaml"), std::string::npos) << typo.output;
}

// As `gimbal train` does: a run that other programs start had counted samples
// twice in its evaluations.
TEST_F(Doctor, AnEvaluationOfMoreThanThereIsFails) {
  std::string config = ReadText(folder_ / "config.yaml");
  const std::string batches = "batches: 2";
  config.replace(config.find(batches), batches.size(), "batches: 1000000");
  std::ofstream(folder_ / "large.yaml") << config;
  const std::vector<std::string> argv = {folder_ / "large.yaml", "--run-dir",
                                         folder_ / "run"};
  EXPECT_EQ(Examine(argv)["data"], "fail");
  // A run that began goes on.
  std::filesystem::create_directory(folder_ / "run");
  std::ofstream(folder_ / "run/config.yaml") << "\n";
  EXPECT_EQ(Examine(argv)["data"], "ok");
}

TEST_F(Doctor, ReachesACoordinatorAndItsClock) {
  Command coordinator({"gimbal-coordinator", "--config",
                       folder_ / "config.yaml", "--run-dir", folder_ / "run"});
  while (CoordinatorPid("run") == 0 && coordinator.Running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::string address =
      json::parse(ReadText(folder_ / "run/coordinator.json")).at("address");
  auto healths = Examine({"--coordinator", address});
  EXPECT_EQ(healths["coordinator"], "ok");
  EXPECT_EQ(healths["clock"], "ok");
  EXPECT_EQ(healths["code"], "0");
  EXPECT_EQ(Examine({"--coordinator", "127.0.0.1:1"})["coordinator"], "fail");
}

// Of a config with all that changes the script.
TEST_F(Doctor, TheScriptForSlurmIsCleanShell) {
  if (!std::filesystem::exists("/usr/bin/shellcheck")) {
    GTEST_SKIP() << "shellcheck is not installed";
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        {"--gpus", "2", "--nodes", "2", "--exclusive", "--time", "1-0", "--mem",
         "8G", "--partition", "p", "--option=--account=x", "--no-requeue"}}) {
    std::vector<std::string> argv = {
        "gimbal",    "slurm",          "render", folder_ / "config.yaml",
        "--run-dir", folder_ / "it's", "--out",  folder_ / "job.sbatch"};
    argv.insert(argv.end(), more.begin(), more.end());
    const CommandResult rendered = test_support::Run(argv);
    ASSERT_EQ(rendered.exit_code, 0) << rendered.output;
    const CommandResult checked =
        test_support::Run({"/usr/bin/shellcheck", folder_ / "job.sbatch"});
    EXPECT_EQ(checked.exit_code, 0) << checked.output;
  }
}

TEST_F(Doctor, TheExampleForSlurmIsWhatRenderWrites) {
  const char* source = std::getenv("GIMBAL_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string root = source;
  const CommandResult rendered = test_support::Run(
      {"gimbal", "slurm", "render", root + "/deploy/examples/quickstart.yaml",
       "--run-dir", "/shared/runs/quickstart", "--bin-dir",
       "/opt/gimbal/build/release/bin", "--time", "1:00:00"});
  ASSERT_EQ(rendered.exit_code, 0) << rendered.output;
  std::string text = rendered.output;
  for (size_t at; (at = text.find(root)) != std::string::npos;) {
    text.replace(at, root.size(), "/opt/gimbal");
  }
  EXPECT_EQ(text, ReadText(root + "/deploy/slurm/quickstart.sbatch"))
      << "made by: gimbal slurm render deploy/examples/quickstart.yaml "
         "--run-dir /shared/runs/quickstart --bin-dir "
         "/opt/gimbal/build/release/bin --time 1:00:00";
}

}  // namespace
}  // namespace gimbal

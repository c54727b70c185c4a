#include "coordinator/cli/sweep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/cli/exit_code.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using test_support::IsOk;
using test_support::TempDir;
using testing::AllOf;
using testing::HasSubstr;

class SweepTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    ASSERT_THAT(io::WriteFileAtomically(dir_ / name, text), IsOk());
  }
  std::string Sweep(const SweepOptions& options, int exit_code) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunSweep(options), exit_code);
    return testing::internal::GetCapturedStderr();
  }

  const TempDir dir_;
};

// Each of its runs once failed by itself, with the reason in a log.
TEST_F(SweepTest, FoldersOfAnotherSweepAreRefusedBeforeAnythingRuns) {
  Write("base.yaml",
        "run: {steps: 10}\ndata: {train: a}\n"
        "model: {layers: 1, hidden: 8, heads: 2, context: 16}\n");
  Write("sweep.yaml", "config: " + (dir_ / "base.yaml") +
                          "\nset: {run.steps: 20}\nmethods: {adamw: ~}\n"
                          "stages: [1]\nlr: [1.0e-3]\nseeds: [1, 2]\n");
  const std::vector<std::string> before = {"run.steps=30", "run.seed=2"};
  const auto held = config::LoadRunConfig(dir_ / "base.yaml", before);
  ASSERT_THAT(held, IsOk());
  Write("out/runs/adamw-P1-lr1.0e-3-s2/config.yaml", config::ToYaml(*held));
  const SweepOptions options = {.spec_path = dir_ / "sweep.yaml",
                                .out = dir_ / "out"};
  EXPECT_THAT(Sweep(options, kBadUsage),
              AllOf(HasSubstr("runs/adamw-P1-lr1.0e-3-s2: holds a run of"),
                    HasSubstr("run.steps: 20 here, 30 there"),
                    HasSubstr("another --out")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/logs"));
}

// So run folders, with their checkpoints, need not be kept.
TEST_F(SweepTest, ARunInTheCurvesIsDoneWithoutItsFolder) {
  Write("base.yaml",
        "run: {steps: 20}\ndata: {train: a}\n"
        "model: {layers: 1, hidden: 8, heads: 2, context: 16}\n");
  Write("sweep.yaml", "config: " + (dir_ / "base.yaml") +
                          "\nmethods: {adamw: ~}\n"
                          "stages: [1]\nlr: [1.0e-3]\nseeds: [1]\n");
  const std::vector<std::string> overrides = {
      "optimizer.lr=1.0e-3", "run.seed=1", "pipeline.stages=1"};
  const auto config = config::LoadRunConfig(dir_ / "base.yaml", overrides);
  ASSERT_THAT(config, IsOk());
  const std::string name = "adamw-P1-lr1.0e-3-s1";
  Write("out/curves.csv",
        name + "," + config::ConfigDigest(*config) + ",20,1.5,,2.5,2.25\n");
  const SweepOptions options = {.spec_path = dir_ / "sweep.yaml",
                                .out = dir_ / "out"};
  EXPECT_EQ(Sweep(options, kDone), "");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/runs"));
  const auto table = io::ReadFile(dir_ / "out/runs.csv");
  ASSERT_THAT(table, IsOk());
  EXPECT_THAT(*table, HasSubstr(name + ",adamw,1,1.0e-3,1,20,2.375000"));

  Write("out/curves.csv", name + ",other,20,1.5,,2.5,2.25\n");
  EXPECT_THAT(Sweep(options, kBadUsage),
              AllOf(HasSubstr("curves.csv: holds " + name),
                    HasSubstr("delete the line")));
}

}  // namespace
}  // namespace gimbal::cli

#include "coordinator/cli/sweep_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<SweepSpec> Read(const std::string& text) {
  const test_support::TempDir folder;
  const std::string path = folder / "sweep.yaml";
  EXPECT_THAT(io::WriteFileAtomically(path, text), IsOk());
  return ReadSweepSpec(path);
}

constexpr char kGood[] = R"(config: base.yaml
set: {run.steps: 600, optimizer.betas: [0.9, 0.99]}
methods:
  adamw: {optimizer.name: adamw}
  deep-only: {optimizer.name: muon, stages: [16], lr: [2.0e-3]}
  default: ~
stages: [1, 16]
lr: [5.0e-4, 1.0e-3]
seeds: [1, 2]
targets: [2.2, 2]
jobs: 2
)";

TEST(SweepSpec, ReadsTheGrid) {
  const auto spec = Read(kGood);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->config, "base.yaml");
  EXPECT_THAT(spec->overrides,
              ElementsAre("run.steps=600", "optimizer.betas=[0.9, 0.99]"));
  EXPECT_EQ(spec->baseline, "adamw");
  EXPECT_EQ(spec->jobs, 2);
  EXPECT_EQ(spec->workers, 1);
  EXPECT_THAT(spec->targets, ElementsAre(2.2, 2.0));
  ASSERT_EQ(spec->methods.size(), 3u);
  EXPECT_THAT(spec->methods[1].stages, ElementsAre(16));
  EXPECT_THAT(spec->methods[1].overrides, ElementsAre("optimizer.name=muon"));
  EXPECT_TRUE(spec->methods[2].overrides.empty());
}

TEST(SweepSpec, MultipliesItOut) {
  const std::vector<SweepRun> runs = RunsOf(*Read(kGood));
  // Per seed: 2 x 2 of adamw, one of deep-only, 2 x 2 of default.
  ASSERT_EQ(runs.size(), 2u * (4 + 1 + 4));
  EXPECT_EQ(runs[0].name, "adamw-P1-lr5.0e-4-s1");
  EXPECT_THAT(runs[0].overrides,
              ElementsAre("run.steps=600", "optimizer.betas=[0.9, 0.99]",
                          "optimizer.name=adamw", "pipeline.stages=1",
                          "optimizer.lr=5.0e-4", "run.seed=1"));
  EXPECT_EQ(runs[4].name, "deep-only-P16-lr2.0e-3-s1");
}

TEST(SweepSpec, SaysWhatIsWrongAndWhere) {
  const auto refused = [](const std::string& text, const char* message) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr(message)));
  };
  refused("config: a\nmethds: {}\n", "sweep.yaml:2: unknown key 'methds'");
  refused("config: a\n", "the key 'methods' is missing");
  refused("[1, 2]\n", "expected keys with values");
  refused("config: [\n", "not valid YAML");
  const std::string grid = "config: a\nlr: 1e-3\nseeds: 1\n";
  refused(grid + "methods: {a: }\nstages: [0]\n", "at least 1");
  refused(grid + "methods: {a: }\nstages: [x]\n", "'x'");
  refused(grid + "methods: {../a: }\nstages: 1\n", "'../a'");
  refused(grid + "methods: {}\nstages: 1\n", "at least one method");
  refused(grid + "methods: {a: 5}\nstages: 1\n", "sweep.yaml:4");
  refused(grid + "methods: {a: }\nstages: 1\nbaseline: b\n",
          "'b' is none of the methods");
}

}  // namespace
}  // namespace gimbal::cli

// `gimbal plan`'s estimate against what a pipeline really grows by.
#include "worker/pipeline/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/process.h"
#include "common/config/run_config_io.h"
#include "tests/support/local_pipeline.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;

constexpr char kConfig[] = R"(
run: {steps: 12}
data: {train: none}
model: {layers: 4, hidden: 192, heads: 6, context: 64, vocab: 256}
batch: {microbatch: 4}
pipeline: {stages: 4}
)";

int64_t Planned(const v1::RunConfig& config) {
  int64_t bytes = 0;
  for (int stage = 0; stage < 4; ++stage) {
    v1::StagePlacement placement;
    placement.set_stage(stage);
    placement.set_first_block(stage);
    placement.set_blocks(1);
    bytes += PlanStage(config, placement).total();
  }
  return bytes;
}

// Resident bytes that a run of the config adds at its peak.
int64_t Measured(const v1::RunConfig& config) {
  const test_support::TempDir folder;
  test_support::PipelineOptions options{.model = ModelSpecOf(config),
                                        .schedule = ScheduleSpecOf(config),
                                        .optimizer = OptimizerSpecOf(config)};
  options.microbatch = config.batch().microbatch();
  options.checkpoint_root = folder.path();
  options.cuts[10] = {.snapshot = true};
  // A tiny run first: libraries and their own buffers are not the stages'.
  test_support::PipelineOptions tiny = options;
  tiny.model.hidden = 6;
  tiny.model.mlp_hidden = 24;
  EXPECT_THAT(RunPipeline(tiny).status, IsOk());
  const int64_t before = base::RssBytes();
  int64_t peak = 0;
  options.on_update = [&] { peak = std::max(peak, base::RssBytes()); };
  EXPECT_THAT(RunPipeline(options).status, IsOk());
  return peak - before;
}

TEST(MemoryPlan, IsWithinTenPercentOfWhatIsMeasured) {
  for (const char* optimizer : {"adamw", "basis_rotation"}) {
    const auto config = config::ParseRunConfig(
        kConfig, "test",
        std::vector<std::string>{std::string("optimizer.name=") + optimizer});
    ASSERT_THAT(config, IsOk());
    const double planned = static_cast<double>(Planned(*config));
    const double measured = static_cast<double>(Measured(*config));
    std::printf("%s: planned %.1f MiB, measured %.1f MiB, ratio %.3f\n",
                optimizer, planned / (1 << 20), measured / (1 << 20),
                planned / measured);
    EXPECT_NEAR(planned / measured, 1.0, 0.10) << optimizer;
  }
}

TEST(MemoryPlan, CountsVersionsAndSlotsOfEachStage) {
  const auto config = *config::ParseRunConfig(kConfig, "test", {});
  for (int stage = 0; stage < 4; ++stage) {
    v1::StagePlacement placement;
    placement.set_stage(stage);
    placement.set_first_block(stage);
    placement.set_blocks(1);
    const StageMemory memory = PlanStage(config, placement);
    EXPECT_EQ(memory.weight_versions, 4 - stage);
    EXPECT_EQ(memory.activation_slots, 4 - stage);
    EXPECT_EQ(memory.weights, memory.gradients * (4 - stage));
  }
}

}  // namespace
}  // namespace gimbal::worker

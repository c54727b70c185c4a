// `gimbal plan`'s estimate against what a pipeline really grows by.
#include "worker/pipeline/memory_plan.h"

#include <gtest/gtest.h>
#include <malloc.h>

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

// Weights and optimizer state are most of it.
constexpr char kConfig[] = R"(
run: {steps: 12}
data: {train: none}
model: {layers: 4, hidden: 192, heads: 6, context: 64, vocab: 256}
batch: {microbatch: 4}
pipeline: {stages: 4}
)";

// Activations and messages are.
constexpr char kManyRows[] = R"(
run: {steps: 12}
data: {train: none}
model: {layers: 4, hidden: 96, heads: 6, context: 128, vocab: 64}
batch: {microbatch: 16}
pipeline: {stages: 4}
optimizer: {name: adamw}
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
int64_t Measured(const v1::RunConfig& config, int workers) {
  const test_support::TempDir folder;
  test_support::PipelineOptions options{.model = ModelSpecOf(config),
                                        .schedule = ScheduleSpecOf(config),
                                        .optimizer = OptimizerSpecOf(config)};
  options.microbatch = config.batch().microbatch();
  options.workers = workers;
  options.checkpoint_root = folder.path();
  options.cuts[10] = {.snapshot = true};
  // A tiny run first: libraries and their own buffers are not the stages'.
  test_support::PipelineOptions tiny = options;
  tiny.model.hidden = 6;
  tiny.model.mlp_hidden = 24;
  tiny.model.context = 8;
  EXPECT_THAT(RunPipeline(tiny).status, IsOk());
  // What earlier runs freed must not serve this one unseen.
  malloc_trim(0);
  const int64_t before = base::RssBytes();
  int64_t peak = 0;
  options.on_update = [&](const worker::UpdateReport&) {
    peak = std::max(peak, base::RssBytes());
  };
  EXPECT_THAT(RunPipeline(options).status, IsOk());
  return peak - before;
}

void ExpectMeasured(const char* text, const std::vector<std::string>& overrides,
                    int workers) {
  const auto config = config::ParseRunConfig(text, "test", overrides);
  ASSERT_THAT(config, IsOk());
  const double planned = static_cast<double>(Planned(*config));
  const double measured = static_cast<double>(Measured(*config, workers));
  std::printf("planned %.1f MiB, measured %.1f MiB, ratio %.3f\n",
              planned / (1 << 20), measured / (1 << 20), planned / measured);
  EXPECT_NEAR(planned / measured, 1.0, 0.10);
}

TEST(MemoryPlan, IsWithinTenPercentOfWhatIsMeasured) {
  ExpectMeasured(kConfig, {"optimizer.name=adamw"}, 1);
  ExpectMeasured(kConfig, {"optimizer.name=basis_rotation"}, 1);
}

TEST(MemoryPlan, CountsActivationsAndTheMessagesBetweenWorkers) {
  ExpectMeasured(kManyRows, {}, 2);
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
    EXPECT_EQ(memory.kept, 0);
  }
}

TEST(MemoryPlan, CountsSnapshotsThatAreKept) {
  v1::StagePlacement placement;
  for (const int stages : {1, 4}) {
    const std::vector<std::string> overrides = {
        "cluster.peer_snapshot_every=10",
        "pipeline.stages=" + std::to_string(stages)};
    const auto config = *config::ParseRunConfig(kConfig, "test", overrides);
    placement.set_blocks(4 / stages);
    const StageMemory memory = PlanStage(config, placement);
    EXPECT_EQ(memory.kept, (stages == 1 ? 2 : 4) * memory.snapshot);
    EXPECT_GT(memory.total(), memory.kept + memory.weights);
  }
}

}  // namespace
}  // namespace gimbal::worker

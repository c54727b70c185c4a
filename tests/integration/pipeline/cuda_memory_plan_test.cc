// `gimbal plan`'s estimate of a run in bf16 against what its stages take.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "common/config/run_config_io.h"
#include "tests/support/status_matchers.h"
#include "worker/compute/cuda/check.h"
#include "worker/pipeline/cuda/cuda_engine.h"
#include "worker/pipeline/memory_plan.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

constexpr char kConfig[] = R"(
run: {steps: 12}
data: {train: none}
model: {layers: 4, hidden: 200, heads: 5, context: 64, vocab: 4001}
batch: {microbatch: 4}
pipeline: {stages: 4}
optimizer: {name: adamw}
precision: {compute: bf16}
)";

double UsedBytes() {
  size_t free = 0, total = 0;
  GIMBAL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<double>(total - free);
}

TEST(CudaMemoryPlan, CountsWhatAStageInBf16Takes) {
  for (const bool stash : {true, false}) {
    const auto config = *config::ParseRunConfig(
        kConfig, "test",
        std::vector<std::string>{stash ? "pipeline.stash=full"
                                       : "pipeline.stash=none"});
    for (const int stage : {0, 1, 3}) {
      v1::StagePlacement placement;
      placement.set_stage(stage);
      placement.set_first_block(stage);
      placement.set_blocks(1);
      const StageMemory plan = PlanStage(config, placement);
      const double before = UsedBytes();
      StageState state(StageStateSpecOf(config, placement), MakeCudaEngine);
      state.engine().MakeSlots(plan.activation_slots);
      state.engine().Allocate(state.table().size());  // the gradient
      EXPECT_EQ(state.engine().activation_bytes(), plan.activations);
      EXPECT_EQ(static_cast<int64_t>(state.engine().values(0).size_bytes()) *
                    (plan.activation_slots - 1) * (stash ? 0 : 1),
                plan.snapshot - StageState::Count(state.spec()).snapshot);
      // The workspace of products is no stage's.
      const double used = UsedBytes() - before - (32 << 20);
      const double planned = static_cast<double>(
          plan.weights + plan.gradients + plan.optimizer + plan.activations);
      EXPECT_NEAR(planned / used, 1, 0.02) << "stage " << stage;
      EXPECT_EQ(plan.weights, plan.gradients * plan.weight_versions * 3 / 2);
    }
  }
}

}  // namespace
}  // namespace gimbal::worker

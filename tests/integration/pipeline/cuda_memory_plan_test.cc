// `gimbal plan`'s estimates against what stages take: of a run in bf16, and of
// one whose optimizer state lies on the host.
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

TEST(CudaMemoryPlan, CountsWhatStateOnTheHostSavesTheDevice) {
  for (const char* optimizer : {"adamw", "basis_rotation"}) {
    v1::StagePlacement placement;
    placement.set_blocks(4);
    double used[2] = {};
    StageMemory plans[2];
    for (const bool offload : {false, true}) {
      const auto config = *config::ParseRunConfig(
          kConfig, "test",
          std::vector<std::string>{
              "pipeline.stages=1", std::string("optimizer.name=") + optimizer,
              offload ? "optimizer.offload=host" : "optimizer.offload=none"});
      plans[offload] = PlanStage(config, placement);
      const double before = UsedBytes();
      const StageState state(StageStateSpecOf(config, placement),
                             MakeCudaEngine);
      used[offload] = UsedBytes() - before;
    }
    const auto saved =
        static_cast<double>(plans[0].optimizer - plans[1].optimizer);
    EXPECT_EQ(plans[0].offloaded, 0);
    EXPECT_GT(saved, 0.6 * static_cast<double>(plans[1].offloaded));
    // Smaller batches need less scratch, too, which is not counted.
    EXPECT_GE(used[0] - used[1], 0.99 * saved) << optimizer;
    if (optimizer == std::string("adamw")) {
      EXPECT_NEAR((used[0] - used[1]) / saved, 1, 0.01);
    }
    RecordProperty(optimizer,
                   std::to_string(plans[0].optimizer) + " bytes without, " +
                       std::to_string(plans[1].optimizer) + " with, " +
                       std::to_string(plans[1].offloaded) + " on the host");
  }
}

}  // namespace
}  // namespace gimbal::worker

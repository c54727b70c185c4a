#include "worker/pipeline/memory_plan.h"

#include "worker/model/stage.h"
#include "worker/optim/optimizer.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

// Boundary tensors that an edge's end holds at one time: one that is being sent
// or has just arrived in each direction.
constexpr int kMessagesPerEdge = 2;

}  // namespace

StageMemory PlanStage(const v1::RunConfig& config,
                      const v1::StagePlacement& placement) {
  const StageSpec spec = StageSpecOf(config, placement);
  const ScheduleSpec schedule = ScheduleSpecOf(config);
  const OptimizerSpec optimizer = OptimizerSpecOf(config);
  const int stage = placement.stage();
  const Stage<float> numeric(spec);
  const ParameterTable& table = numeric.table();
  const int64_t arena = table.size() * 4;

  StageMemory memory;
  memory.parameters = table.parameter_count();
  memory.weight_versions = WeightVersions(schedule, stage);
  memory.weights = arena * memory.weight_versions;
  memory.gradients = arena;
  memory.optimizer = OptimizerBytes(optimizer, table);
  memory.activation_slots = ActivationSlots(schedule, stage);
  memory.activations =
      numeric.slot_bytes() * memory.activation_slots + numeric.scratch_bytes();
  const int edges = (spec.first ? 0 : 1) + (spec.last ? 0 : 1);
  memory.messages = numeric.boundary_size() * 4 * kMessagesPerEdge * edges;
  memory.snapshot = memory.parameters * 4 * memory.weight_versions +
                    OptimizerStateBytes(optimizer, table);
  return memory;
}

}  // namespace gimbal::worker

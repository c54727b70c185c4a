#include "worker/pipeline/memory_plan.h"

#include "worker/model/scratch.h"
#include "worker/model/stage.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

// Boundary tensors that an edge's end holds at one time: one that is being sent
// or has just arrived in each direction.
constexpr int kMessagesPerEdge = 2;
// The last one that counts and the next.
constexpr int kKeptSnapshots = 2;

}  // namespace

StageMemory PlanStage(const v1::RunConfig& config,
                      const v1::StagePlacement& placement) {
  const StageStateSpec state = StageStateSpecOf(config, placement);
  const StageSpec& spec = state.stage;
  const ParameterTable table = ParameterTable::ForStage(spec);
  const StageState::Bytes bytes = StageState::Count(state);

  StageMemory memory;
  memory.parameters = table.parameter_count();
  memory.weight_versions = bytes.weight_arenas;
  memory.weights = bytes.weights;
  memory.gradients = table.size() * 4;
  memory.optimizer = bytes.optimizer;
  memory.activation_slots = ActivationSlots(state.schedule, state.index);
  memory.activations = Stage<float>::SlotBytes(spec) * memory.activation_slots +
                       Stage<float>::ScratchBytes(spec);
  const int edges = (spec.first ? 0 : 1) + (spec.last ? 0 : 1);
  memory.messages =
      Rows(spec) * spec.model.hidden * 4 * kMessagesPerEdge * edges;
  memory.snapshot = bytes.snapshot;
  if (!state.schedule.stash) {
    memory.snapshot +=
        Stage<float>::SlotBytes(spec) * (memory.activation_slots - 1);
  }
  if (config.cluster().peer_snapshot_every() > 0) {
    const int holders = state.schedule.stages > 1 ? 2 : 1;
    memory.kept = kKeptSnapshots * holders * memory.snapshot;
  }
  return memory;
}

}  // namespace gimbal::worker

#include "worker/pipeline/memory_plan.h"

#include "worker/model/scratch.h"
#include "worker/model/stage.h"
#include "worker/pipeline/cuda/cuda_layout.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

// Boundary tensors that an edge's end holds at one time: one that is being sent
// or has just arrived in each direction.
constexpr int kMessagesPerEdge = 2;
// The last one that counts and the next.
constexpr int kKeptSnapshots = 2;

struct ActivationBytes {
  int64_t all = 0;   // slots and what they share
  int64_t kept = 0;  // of a slot, in a snapshot
};

// In fp32 as on the CPU; CUDA needs about as much. Only CUDA has bf16.
ActivationBytes BytesOf(const StageSpec& spec, int slots) {
  using Bf16 = uint16_t;
  if (spec.model.bf16) {
    return {CudaActivationBytes<Bf16>(spec, slots), CudaValueBytes<Bf16>(spec)};
  }
  const int64_t slot = Stage<float>::SlotBytes(spec);
  return {slot * slots + Stage<float>::ScratchBytes(spec), slot};
}

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
  memory.offloaded = bytes.offloaded;
  memory.activation_slots = ActivationSlots(state.schedule, state.index);
  const ActivationBytes activations = BytesOf(spec, memory.activation_slots);
  memory.activations = activations.all;
  const int edges = (spec.first ? 0 : 1) + (spec.last ? 0 : 1);
  const int64_t rows = Rows(spec), cols = spec.model.hidden;
  memory.messages =
      compute::WireBytes(state.wire, rows, cols) * kMessagesPerEdge * edges;
  if (state.wire != compute::WireFormat::kFp32) {
    memory.activations += rows * cols * 4;  // decoded
  }
  memory.snapshot = bytes.snapshot;
  if (!state.schedule.stash) {
    memory.snapshot += activations.kept * (memory.activation_slots - 1);
  }
  if (config.cluster().peer_snapshot_every() > 0) {
    const int holders = state.schedule.stages > 1 ? 2 : 1;
    memory.kept = kKeptSnapshots * holders * memory.snapshot;
  }
  return memory;
}

}  // namespace gimbal::worker

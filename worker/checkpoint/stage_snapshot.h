// A stage's part of a checkpoint: its state copied at a cut, to be written or
// sent while training goes on, and read back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/safetensors.h"
#include "worker/checkpoint/checkpoint_store.h"
#include "worker/checkpoint/snapshot_memory.h"
#include "worker/pipeline/stage_state.h"

namespace gimbal::worker {

struct SnapshotFile {
  std::string path;  // relative to the checkpoint's folder
  io::WrittenFile written;
};

struct SnapshotTensor {
  std::string file;  // relative path
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // into the values
};

// Not thread-safe: the caller hands it from the copying to the writing thread.
class StageSnapshot {
 public:
  StageSnapshot() = default;
  // Of tensors whose values, one after the other, are still to be filled in.
  // Offsets are set. INVALID_ARGUMENT for shapes that are none. Throws
  // std::bad_alloc.
  static absl::StatusOr<StageSnapshot> WithTensors(
      int64_t update, std::vector<SnapshotTensor> tensors);

  // Copies weights, stashed versions and optimizer state right after update
  // `update`, into host memory of the state's engine, which is kept for the
  // next copy.
  void Copy(int64_t update, const StageState& state);

  // Writes the files of the stage's layers. FAILED_PRECONDITION when a number
  // is not finite.
  absl::StatusOr<std::vector<SnapshotFile>> Write(CheckpointStore& store) const;

  int64_t update() const { return update_; }
  const std::vector<SnapshotTensor>& tensors() const { return tensors_; }
  std::span<const float> values() const { return memory_.values(); }
  std::span<float> values() { return memory_.values(); }
  int64_t bytes() const { return memory_.size() * 4; }

 private:
  absl::Status CheckFinite(const SnapshotTensor& tensor) const;
  // Memory of `size` elements for a tensor of the file.
  float* Add(std::string file, std::string name, std::vector<int64_t> shape);
  void AddWeights(int64_t version, const float* arena, bool newest,
                  const StageState& state);
  int64_t SizeOf(const StageState& state) const;

  int64_t update_ = 0;
  std::vector<SnapshotTensor> tensors_;
  SnapshotMemory memory_;
};

// Fills the state with that of the checkpoint taken at `update`: the newest
// weights, the stashed versions that minibatches in flight need (or their
// activations, without a stash), and the update rule's state. Errors name the
// file and the tensor.
//
// At the cut after which the run goes over to these stages (`schedule.origin`)
// only weights and the update rule's state are read, so the files may have been
// written by any number of stages.
absl::Status LoadStage(CheckpointStore& store, int64_t update,
                       StageState* state);
// The same from memory.
absl::Status LoadStage(const StageSnapshot& snapshot, StageState* state);

}  // namespace gimbal::worker

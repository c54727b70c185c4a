// A stage's part of a checkpoint: its state copied at a cut, to be written
// while training goes on, and read back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/safetensors.h"
#include "worker/pipeline/stage_state.h"

namespace gimbal::worker {

struct SnapshotFile {
  std::string path;  // relative to the checkpoint's folder
  io::WrittenFile written;
};

// Not thread-safe: the caller hands it from the copying to the writing thread.
class StageSnapshot {
 public:
  // Copies weights, stashed versions and optimizer state right after update
  // `update`. Memory is kept for the next copy.
  void Copy(int64_t update, const StageState& state);

  // Writes the files of the stage's layers below `folder` (a step-... folder).
  // FAILED_PRECONDITION when a number is not finite. `may_write` is asked
  // before each file counts.
  absl::StatusOr<std::vector<SnapshotFile>> Write(
      const std::string& folder,
      const std::function<absl::Status()>& may_write = {}) const;

 private:
  struct Tensor {
    std::string file;  // relative path
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset = 0;  // into memory_
  };
  absl::Status CheckFinite(const Tensor& tensor) const;
  // Memory of `size` elements for a tensor of the file.
  float* Add(std::string file, std::string name, std::vector<int64_t> shape);
  void AddWeights(int64_t version, const float* arena, bool newest,
                  const ParameterTable& table);
  int64_t SizeOf(const StageState& state) const;

  int64_t update_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<float> memory_;
};

// Fills the state with that of the checkpoint folder, taken at `update`: the
// newest weights, the stashed versions that minibatches in flight need (or
// their activations, without a stash), and the update rule's state. Errors name
// the file and the tensor.
//
// At the cut after which the run goes over to these stages (`schedule.origin`)
// only weights and the update rule's state are read, so the files may have been
// written by any number of stages.
absl::Status LoadStage(const std::string& folder, int64_t update,
                       StageState* state);

}  // namespace gimbal::worker

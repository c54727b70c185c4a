// A stage's update rule on a device: the same numbers as
// worker/optim/stage_update.h up to rounding, and the same state tensors.
// AdamW, NAdam and SGD in one pass over the arena; what a mitigation does to
// learning rates and momentum is the same too.
//
// Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "worker/compute/cuda/memory.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/stage_update.h"

namespace gimbal::worker {

class CudaUpdate {
 public:
  // Requires CheckCudaSupports of the spec. `table` must outlive it.
  CudaUpdate(const StageUpdateSpec& spec, const ParameterTable& table,
             cudaStream_t stream);

  // Arenas are the device's.
  void Apply(const UpdateInput& input);
  std::vector<StateTensor<float>> State() const;

 private:
  // Neighbouring parameters with one rule.
  struct Run {
    int64_t begin = 0, end = 0;  // in an arena
    double lr_factor = 1;
  };
  std::vector<Run> RunsAt(const StageLr& lr) const;
  void Step(const UpdateInput& input, const Run& run, double lr, double scale);

  const StageUpdateSpec spec_;
  const ParameterTable& table_;
  const cudaStream_t stream_;
  AdamRule adam_;
  compute::cuda::DeviceBuffer<float> m_, v_;  // arenas of the table
};

}  // namespace gimbal::worker

// A stage's update rule on a device: the same numbers as
// worker/optim/stage_update.h up to rounding, and the same state tensors.
//
// AdamW, NAdam and SGD run in one pass over neighbouring parameters; matrices
// that are rotated, and Muon's, run in groups of equal shape (group_rule.h).
// Mitigations are passes over arenas. Everything happens in one stream.
//
// Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/compute/cuda/memory.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/stage_update.h"
#include "worker/pipeline/cuda/cuda_laps.h"
#include "worker/pipeline/cuda/cuda_linalg.h"
#include "worker/pipeline/cuda/group_rule.h"

namespace gimbal::worker {

class CudaUpdate {
 public:
  // `table` and `gemm` must outlive it.
  CudaUpdate(const StageUpdateSpec& spec, const ParameterTable& table,
             cudaStream_t stream, compute::cuda::Gemm& gemm);
  ~CudaUpdate();

  // Arenas are the device's.
  void Apply(const UpdateInput& input);
  void FillBackwardWeights(const float* newest, float* out) const;
  std::vector<StateTensor<float>> State() const;
  // Whoever writes into a tensor of State() says so.
  void StateWritten() { health_known_ = false; }

  // The worst of the bases; nothing without bases. Waits for the device after a
  // refresh.
  std::optional<BasisHealth> basis_health() const;
  // Waits for the last update.
  BasisSeconds basis_seconds() const { return laps_.Sum(); }

 private:
  // Neighbouring parameters that are updated element by element.
  struct Run {
    int64_t begin = 0, end = 0;  // in an arena
    int64_t state = 0;           // where its moments begin
    bool matrices = false;
  };
  void MakeGroups(compute::cuda::Gemm& gemm);
  void MakeRuns();
  void ResetMoments();
  void CompensateInPlace(const UpdateInput& input, double scale);
  void Step(const StepContext<float>& context, const UpdateInput& input);
  void StepRun(const UpdateInput& input, const Run& run, double lr,
               double scale);
  void Predict(const UpdateInput& input, const StageLr& lr);
  void PredictRun(const PredictContext& context, const Run& run,
                  const UpdateInput& input);

  const StageUpdateSpec spec_;
  const StageUpdateNeeds needs_;
  const ParameterTable& table_;
  const cudaStream_t stream_;
  AdamRule adam_;
  mutable CudaLaps laps_;
  std::unique_ptr<CudaLinalg> linalg_;  // where there are groups
  std::vector<std::unique_ptr<GroupRule>> groups_;
  // Where a parameter is: its group and its place there.
  std::map<std::string, std::pair<const GroupRule*, int64_t>> grouped_;
  std::vector<Run> runs_;
  compute::cuda::DeviceBuffer<float> m_, v_;  // of the runs
  compute::cuda::DeviceBuffer<float> scratch_;
  // Arenas, empty when not used, as in StageUpdate.
  compute::cuda::DeviceBuffer<float> previous_, velocity_, mean_square_;
  mutable std::optional<BasisHealth> health_;
  mutable bool health_known_ = false;
};

}  // namespace gimbal::worker

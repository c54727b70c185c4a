// A stage's update rule on a device: the same numbers as
// worker/optim/stage_update.h up to rounding, and the same state tensors.
//
// AdamW, NAdam and SGD run in one pass over neighbouring parameters; matrices
// that are rotated, and Muon's, run in groups of equal shape (group_rule.h).
// Mitigations are passes over arenas. Everything is computed in one stream,
// unit by unit (update_units.h), wherever their state lies (cuda_state.h).
// Health and what the mitigations keep are always on the device.
//
// Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "worker/compute/cuda/memory.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/stage_update.h"
#include "worker/pipeline/cuda/cuda_laps.h"
#include "worker/pipeline/cuda/cuda_linalg.h"
#include "worker/pipeline/cuda/cuda_state.h"
#include "worker/pipeline/cuda/group_rule.h"
#include "worker/pipeline/cuda/update_units.h"

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
  // Whoever copies a tensor of State() in the stream asks for it first, and
  // says when it has written there.
  void SettleState() const { state_.Settle(); }
  void StateWritten() {
    state_.HomeWritten();
    health_known_ = false;
  }
  const CudaState::Traffic& traffic() const { return state_.traffic(); }

  // The worst of the bases; nothing without bases. Waits for the device after a
  // refresh.
  std::optional<BasisHealth> basis_health() const;
  // Waits for the last update.
  BasisSeconds basis_seconds() const { return laps_.Sum(); }

 private:
  // The rule of a unit of matrices; none for runs.
  using Rule = std::unique_ptr<GroupRule>;
  void MakeRules(compute::cuda::Gemm& gemm);
  void FindHomes();
  void ZeroState(const UpdateUnit& unit, StatePlace place);
  void CompensateInPlace(const UpdateInput& input, double scale);
  void Step(const StepContext<float>& context, const UpdateInput& input);
  void StepRun(const UpdateInput& input, const UpdateRun& run, StatePlace place,
               double lr, double scale);
  void Predict(const UpdateInput& input, const StageLr& lr);
  void PredictRun(const PredictContext& context, const UpdateRun& run,
                  StatePlace place, const UpdateInput& input);

  const StageUpdateSpec spec_;
  const StageUpdateNeeds needs_;
  const ParameterTable& table_;
  const cudaStream_t stream_;
  AdamRule adam_;
  mutable CudaLaps laps_;
  std::unique_ptr<CudaLinalg> linalg_;  // where there are matrices
  const UpdateUnits units_;
  CudaState state_;
  std::vector<Rule> rules_;  // by unit
  // Where a parameter's state is: which matrix of the unit it is, or where its
  // moments begin in the unit's extents.
  struct Home {
    size_t unit = 0;
    int64_t place = 0;
  };
  std::map<const Param*, Home> homes_;
  compute::cuda::DeviceBuffer<float> scratch_;
  // Arenas, empty when not used, as in StageUpdate.
  compute::cuda::DeviceBuffer<float> previous_, velocity_, mean_square_;
  mutable std::optional<BasisHealth> health_;
  mutable bool health_known_ = false;
};

}  // namespace gimbal::worker

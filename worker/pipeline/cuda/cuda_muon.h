// Muon on a group of matrices on a device: the rule and the state of
// worker/optim/muon.h, Newton-Schulz steps on the whole batch at once.
//
// FLOP per update of B matrices, k the smaller side, l the larger:
// steps B (4 l k^2 + 2 k^3); a batch of X X^T takes a product of full size.
#pragma once

#include <vector>

#include "worker/optim/optimizer.h"
#include "worker/pipeline/cuda/cuda_linalg.h"
#include "worker/pipeline/cuda/group_rule.h"

namespace gimbal::worker {

class CudaMuon final : public GroupRule {
 public:
  // The references must outlive it.
  CudaMuon(std::vector<const Param*> params, const OptimizerSpec& spec,
           CudaLinalg& linalg);

  const MatrixGroup& group() const override { return group_; }
  void Use(StatePlace place) override;
  int64_t scratch_size() const override;
  void Step(const StepContext<float>& context, const float* old_weights,
            const float* grads, float* new_weights, float* scratch) override;
  void Predict(const PredictContext& context, const float* weights,
               float* predicted, float* scratch) override;
  std::vector<StateTensor<float>> State(int64_t i,
                                        StatePlace home) const override;

 private:
  double Scale() const;
  // Of o_.
  void NewtonSchulz(float* scratch);

  const MatrixGroup group_;
  const OptimizerSpec& spec_;
  CudaLinalg& linalg_;
  const int64_t side_, side_stride_;  // the smaller side, of [side, side]
  float* m_ = nullptr;
  compute::cuda::DeviceBuffer<float> o_;
  compute::cuda::DeviceBuffer<int64_t> ranges_;
  compute::cuda::DeviceBuffer<double> squares_;
};

}  // namespace gimbal::worker

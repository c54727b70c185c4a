// Basis rotation of a group of matrices on a device: the rule, the state and
// the order of steps of worker/optim/basis_rotation.h. Two-sided products run
// as strided batches, outer products as one syrk per matrix, factorisations on
// several streams (cuda_bases.h).
//
// Per update of B matrices [m, n]: 4 B m n (m + n) FLOP for two two-sided
// products and B m n (m + n) for L and R; 76 B m n bytes, 8 B (m^2 + n^2) for
// the bases and 8 B (m^2 + n^2) for L and R. A refresh adds what
// basis_rotation.h says, and waits for the device once per side.
#pragma once

#include <vector>

#include "worker/optim/adam_rule.h"
#include "worker/optim/basis_rotation.h"
#include "worker/pipeline/cuda/cuda_bases.h"
#include "worker/pipeline/cuda/cuda_laps.h"
#include "worker/pipeline/cuda/group_rule.h"

namespace gimbal::worker {

class CudaRotation final : public GroupRule {
 public:
  // Requires SidesToRotate(...).any() of the group's matrices. The references
  // must outlive it.
  CudaRotation(std::vector<const Param*> params, AdamRule& rule,
               CudaLinalg& linalg, CudaLaps& laps);

  const MatrixGroup& group() const override { return group_; }
  void Initialize(StatePlace home) const override;
  void Use(StatePlace place) override;
  int64_t scratch_size() const override;
  void Step(const StepContext<float>& context, const float* old_weights,
            const float* grads, float* new_weights, float* scratch) override;
  void Predict(const PredictContext& context, const float* weights,
               float* predicted, float* scratch) override;
  std::vector<StateTensor<float>> State(int64_t i,
                                        StatePlace home) const override;
  const float* health() const override { return health_.data(); }

 private:
  struct Side {
    bool rotated = false;
    std::optional<CudaBases> bases;
    float* covariances = nullptr;  // source second
  };
  // Two buffers of the batch, and what a refresh needs, or a third buffer.
  struct Work {
    float* a = nullptr;
    float* b = nullptr;
    float* rest = nullptr;
  };
  Work Unpack(float* scratch);
  // The state, side 1 being the right one.
  struct Parts {
    float *m = nullptr, *v = nullptr;
    float* covariances[2] = {};
    std::byte* bases[2] = {};
  };
  Parts Divide(StatePlace place) const;

  const RotationSpec& rotation() const { return rule_.spec().rotation; }
  bool FromMoment() const {
    return rotation().source == RotationSource::kFirst;
  }
  bool FromPair() const {
    return FromMoment() && left_.rotated && right_.rotated;
  }
  int64_t RefreshScratch() const;
  BatchOrder Order(const Side& side);

  void Compensate(const StepContext<float>& context, const float* now,
                  float* gradient, const Work& work);
  void UpdateCovariances(double scale, const float* grads);
  void Refresh(bool cold, const Work& work);
  void RefreshBases(bool cold, const float* moment, float* scratch);
  const float* Statistics(Side& side, const float* moment, float* squares);
  void MomentOffdiagonalRatios();
  void RotateSecondMoment(const float* old_left, const float* old_right,
                          float* product, float* scratch);

  // Both return where the result is: `in`, or `other`; the other one is lost.
  float* ToRotated(float alpha, float* in, float* other);
  float* ToOriginal(float* in, float* other);
  void TimesLeft(compute::Trans trans, float alpha, const float* matrices,
                 const float* in, float* out);
  void TimesRight(compute::Trans trans, float alpha, const float* matrices,
                  const float* in, float* out);

  const MatrixGroup group_;
  AdamRule& rule_;
  CudaLinalg& linalg_;
  CudaLaps& laps_;
  float *m_ = nullptr, *v_ = nullptr;
  compute::cuda::DeviceBuffer<float> health_;
  Side left_, right_;
  compute::cuda::DeviceBuffer<int> order_;  // [count, rows + cols]
  compute::cuda::DeviceBuffer<int64_t> ranges_;
  compute::cuda::DeviceBuffer<double> norms_;
};

}  // namespace gimbal::worker

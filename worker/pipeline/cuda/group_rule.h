// How a group of matrices is updated on a device: worker/optim/parameter_rule.h
// for equally large matrices at once. Everything happens in one stream. The
// state is the caller's (cuda_state.h): the calls below find it where Use says.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/optim/parameter_rule.h"
#include "worker/pipeline/cuda/cuda_state.h"
#include "worker/pipeline/cuda/matrix_group.h"

namespace gimbal::worker {

class GroupRule {
 public:
  virtual ~GroupRule() = default;

  virtual const MatrixGroup& group() const = 0;
  // Fills zeros at home with what it begins with.
  virtual void Initialize(StatePlace /*home*/) const {}
  virtual void Use(StatePlace place) = 0;
  // Elements of scratch for the calls below; groups share it.
  virtual int64_t scratch_size() const = 0;
  // Arenas. `old_weights` and `new_weights` may be the same.
  virtual void Step(const StepContext<float>& context, const float* old_weights,
                    const float* grads, float* new_weights, float* scratch) = 0;
  // Right after a Step; arenas.
  virtual void Predict(const PredictContext& context, const float* weights,
                       float* predicted, float* scratch) = 0;
  // The tensors of matrix i, as the rule on the CPU has them, at home.
  virtual std::vector<StateTensor<float>> State(int64_t i,
                                                StatePlace home) const = 0;
  // [count, 2] on the device, as .health; null without bases.
  virtual const float* health() const { return nullptr; }
};

}  // namespace gimbal::worker

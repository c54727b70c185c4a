// SGD with momentum b1 on one parameter: v <- b1 v + g, then the step along v,
// or along g + b1 v when the spec says nesterov. State: .m.
#pragma once

#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {

template <typename T>
class Sgd : public ParameterRule<T> {
 public:
  // As AdamW's.
  Sgd(const Param& param, const OptimizerSpec& spec,
      compute::Carver<T>& memory);

  void Step(const StepContext<T>& context, const T* old_weights, const T* grads,
            T* new_weights, const OptimizerScratch<T>& scratch) override;
  // SpecTrain: w - (sum of the learning rates) v.
  void Predict(const PredictContext& context, const T* weights, T* predicted,
               const OptimizerScratch<T>& scratch) override;
  std::vector<StateTensor<T>> State() const override;
  ScratchSize scratch_size() const override { return {}; }

 private:
  const Param& param_;
  const OptimizerSpec& spec_;
  T* const m_;
};

}  // namespace gimbal::worker

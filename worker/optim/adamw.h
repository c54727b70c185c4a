// AdamW on one parameter, or NAdamW when the spec says nesterov. State: two
// moments (.m, .v).
#pragma once

#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/parameter_rule.h"

namespace gimbal::worker {

template <typename T>
class AdamW : public ParameterRule<T> {
 public:
  // `param` and `rule` must outlive it. A carver that only counts gives an
  // object that may not step.
  AdamW(const Param& param, AdamRule& rule, compute::Carver<T>& memory);

  void Step(const StepContext<T>& context, const T* old_weights, const T* grads,
            T* new_weights, const OptimizerScratch<T>& scratch) override;
  void Predict(const PredictContext& context, const T* weights, T* predicted,
               const OptimizerScratch<T>& scratch) override;
  std::vector<StateTensor<T>> State() const override;
  ScratchSize scratch_size() const override { return {}; }

 private:
  const Param& param_;
  AdamRule& rule_;
  T* const m_;
  T* const v_;
};

// Learning rate factor of a parameter's group.
template <typename Context>
double LrFactor(const Context& context, const Param& param) {
  return param.group == ParamGroup::kMatrix ? context.matrix_lr_factor : 1.0;
}

}  // namespace gimbal::worker

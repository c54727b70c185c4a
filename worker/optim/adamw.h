// AdamW on every parameter of a stage. State: two moments per parameter (.m,
// .v).
#pragma once

#include <vector>

#include "worker/optim/kernels.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {

// Rule of the AdamW kernel at one update.
AdamWRule AdamWRuleAt(const OptimizerSpec& spec, const StepContext& context);

template <typename T>
class AdamW : public Optimizer<T> {
 public:
  AdamW(const OptimizerSpec& spec, const ParameterTable& table);

  void Step(const StepContext& context, const T* old_weights, const T* grads,
            T* new_weights) override;
  std::vector<StateTensor<T>> State() override;
  int64_t state_bytes() const override;

  static int64_t Bytes(const ParameterTable& table);

 private:
  const OptimizerSpec spec_;
  const ParameterTable& table_;
  std::vector<T> m_;  // laid out as an arena of the table
  std::vector<T> v_;
};

}  // namespace gimbal::worker

#include "worker/optim/adamw.h"

#include <cmath>

#include "worker/compute/isa.h"

namespace gimbal::worker {

AdamWRule AdamWRuleAt(const OptimizerSpec& spec, const StepContext& context) {
  const auto t = static_cast<double>(context.update);
  return {.moments = {spec.beta1, spec.beta2, spec.eps},
          .grad_scale = context.scale,
          .keep = 1 - context.lr * spec.weight_decay,
          .step = context.lr / (1 - std::pow(spec.beta1, t)),
          .root_correction = std::sqrt(1 - std::pow(spec.beta2, t))};
}

template <typename T>
AdamW<T>::AdamW(const OptimizerSpec& spec, const ParameterTable& table)
    : spec_(spec), table_(table), m_(table.size()), v_(table.size()) {}

template <typename T>
void AdamW<T>::Step(const StepContext& context, const T* old_weights,
                    const T* grads, T* new_weights) {
  const AdamWRule rule = AdamWRuleAt(spec_, context);
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  for (const Param& p : table_.params()) {
    kernels.adamw(p.size(), rule, old_weights + p.offset, grads + p.offset,
                  m_.data() + p.offset, v_.data() + p.offset,
                  new_weights + p.offset);
  }
}

template <typename T>
std::vector<StateTensor<T>> AdamW<T>::State() {
  std::vector<StateTensor<T>> state;
  for (const Param& p : table_.params()) {
    state.push_back(
        {p.name + ".m", p.layer, p.rows, p.cols, m_.data() + p.offset});
    state.push_back(
        {p.name + ".v", p.layer, p.rows, p.cols, v_.data() + p.offset});
  }
  return state;
}

template <typename T>
int64_t AdamW<T>::state_bytes() const {
  return Bytes(table_);
}

template <typename T>
int64_t AdamW<T>::Bytes(const ParameterTable& table) {
  return 2 * table.size() * static_cast<int64_t>(sizeof(T));
}

template class AdamW<float>;
template class AdamW<double>;

}  // namespace gimbal::worker

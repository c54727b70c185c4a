#include "worker/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "worker/compute/aligned_buffer.h"
#include "worker/compute/isa.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/adamw.h"
#include "worker/optim/basis_rotation.h"
#include "worker/optim/kernels.h"
#include "worker/optim/muon.h"
#include "worker/optim/sgd.h"

namespace gimbal::worker {

template <typename T>
void StateTensor<T>::Save(T* out) const {
  if (half == nullptr) {
    std::copy_n(data, size(), out);
  } else {
    compute::Kernels<OptimKernels<T>>().from_half(size(), half, out);
  }
}

template <typename T>
void StateTensor<T>::Load(const T* in) const {
  if (half == nullptr) {
    std::copy_n(in, size(), data);
  } else {
    compute::Kernels<OptimKernels<T>>().to_half(size(), in, half);
  }
}

template <typename T>
struct Optimizer<T>::Impl {
  // Without memory: only counted, may not step.
  Impl(const OptimizerSpec& optimizer_spec, const ParameterTable& param_table,
       bool with_memory)
      : spec(optimizer_spec), table(param_table), adam(spec) {
    compute::Carver<T> counter(nullptr);
    MakeRules(counter);
    memory_size = counter.used();
    for (const auto& rule : rules) {
      const ScratchSize size = rule->scratch_size();
      scratch_size.values = std::max(scratch_size.values, size.values);
      scratch_size.ints = std::max(scratch_size.ints, size.ints);
    }
    if (!with_memory) return;
    memory = compute::AlignedBuffer<T>(memory_size);
    values = compute::AlignedBuffer<T>(scratch_size.values);
    ints.resize(static_cast<size_t>(scratch_size.ints));
    compute::Carver<T> carver(memory.data());
    MakeRules(carver);
  }

  void MakeRules(compute::Carver<T>& carver) {
    rules.clear();
    for (const Param& p : table.params()) rules.push_back(MakeRule(p, carver));
  }

  std::unique_ptr<ParameterRule<T>> MakeRule(const Param& p,
                                             compute::Carver<T>& carver) {
    if (spec.kind == OptimizerKind::kSgd) {
      return std::make_unique<Sgd<T>>(p, spec, carver);
    }
    if (spec.kind == OptimizerKind::kMuon && p.group == ParamGroup::kMatrix) {
      return std::make_unique<Muon<T>>(p, spec, carver);
    }
    if (spec.kind == OptimizerKind::kBasisRotation &&
        SidesToRotate(spec.rotation, p).any()) {
      return std::make_unique<BasisRotation<T>>(p, adam, carver);
    }
    return std::make_unique<AdamW<T>>(p, adam, carver);
  }

  OptimizerScratch<T> scratch() {
    return {{values.data(), static_cast<size_t>(values.size())}, ints};
  }

  Bytes Count() const {
    Bytes bytes;
    for (const auto& tensor : State()) {
      bytes.state += tensor.size() * static_cast<int64_t>(sizeof(T));
    }
    bytes.held = (compute::AlignedSize<T>(memory_size) +
                  compute::AlignedSize<T>(scratch_size.values)) *
                     static_cast<int64_t>(sizeof(T)) +
                 scratch_size.ints * static_cast<int64_t>(sizeof(int));
    return bytes;
  }

  std::vector<StateTensor<T>> State() const {
    std::vector<StateTensor<T>> state;
    for (const auto& rule : rules) {
      for (auto& tensor : rule->State()) state.push_back(std::move(tensor));
    }
    return state;
  }

  const OptimizerSpec spec;
  const ParameterTable& table;
  AdamRule adam;
  std::vector<std::unique_ptr<ParameterRule<T>>> rules;  // as table.params()
  int64_t memory_size = 0;
  ScratchSize scratch_size;
  compute::AlignedBuffer<T> memory, values;
  std::vector<int> ints;
};

template <typename T>
Optimizer<T>::Optimizer(const OptimizerSpec& spec, const ParameterTable& table)
    : impl_(std::make_unique<Impl>(spec, table, true)) {}

template <typename T>
Optimizer<T>::~Optimizer() = default;

template <typename T>
void Optimizer<T>::Step(const StepContext<T>& context, const T* old_weights,
                        const T* grads, T* new_weights) {
  const auto params = impl_->table.params();
  for (size_t i = 0; i < params.size(); ++i) {
    const int64_t at = params[i].offset;
    impl_->rules[i]->Step(context, old_weights + at, grads + at,
                          new_weights + at, impl_->scratch());
  }
}

template <typename T>
void Optimizer<T>::Predict(const PredictContext& context, const T* weights,
                           T* predicted) {
  const auto params = impl_->table.params();
  for (size_t i = 0; i < params.size(); ++i) {
    const int64_t at = params[i].offset;
    impl_->rules[i]->Predict(context, weights + at, predicted + at,
                             impl_->scratch());
  }
}

template <typename T>
std::vector<StateTensor<T>> Optimizer<T>::State() const {
  return impl_->State();
}

template <typename T>
typename Optimizer<T>::Bytes Optimizer<T>::bytes() const {
  return impl_->Count();
}

template <typename T>
typename Optimizer<T>::Bytes Optimizer<T>::Count(const OptimizerSpec& spec,
                                                 const ParameterTable& table) {
  return Impl(spec, table, false).Count();
}

template <typename T>
std::optional<BasisHealth> Optimizer<T>::basis_health() const {
  std::optional<BasisHealth> worst;
  for (const auto& rule : impl_->rules) {
    const std::optional<BasisHealth> health = rule->health();
    if (!health) continue;
    if (!worst) worst.emplace();
    worst->offdiagonal_ratio =
        std::max(worst->offdiagonal_ratio, health->offdiagonal_ratio);
    worst->orthogonality_error =
        std::max(worst->orthogonality_error, health->orthogonality_error);
  }
  return worst;
}

template <typename T>
BasisSeconds Optimizer<T>::basis_seconds() const {
  BasisSeconds sum;
  for (const auto& rule : impl_->rules) {
    const BasisSeconds seconds = rule->basis_seconds();
    sum.rotate += seconds.rotate;
    sum.refresh += seconds.refresh;
  }
  return sum;
}

template <typename T>
std::vector<double> LayerSquareSums(const ParameterTable& table,
                                    const T* grads) {
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  std::vector<double> sums;
  int layer = -1;
  for (const Param& p : table.params()) {
    if (p.layer != layer) {
      layer = p.layer;
      sums.push_back(0);
    }
    sums.back() += kernels.square_sum(p.size(), grads + p.offset);
  }
  return sums;
}

double ClipScale(double square_sum, double limit) {
  if (limit == 0) return 1;
  return std::min(1.0, limit / (std::sqrt(square_sum) + 1e-6));
}

#define GIMBAL_INSTANTIATE(T)     \
  template struct StateTensor<T>; \
  template class Optimizer<T>;    \
  template std::vector<double> LayerSquareSums(const ParameterTable&, const T*);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

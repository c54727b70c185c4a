#include "worker/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "worker/compute/isa.h"
#include "worker/optim/adamw.h"
#include "worker/optim/basis_rotation.h"
#include "worker/optim/kernels.h"

namespace gimbal::worker {

template <typename T>
std::unique_ptr<Optimizer<T>> MakeOptimizer(const OptimizerSpec& spec,
                                            const ParameterTable& table) {
  if (spec.kind == OptimizerKind::kBasisRotation) {
    return std::make_unique<BasisRotation<T>>(spec, table);
  }
  return std::make_unique<AdamW<T>>(spec, table);
}

int64_t OptimizerBytes(const OptimizerSpec& spec, const ParameterTable& table) {
  if (spec.kind == OptimizerKind::kBasisRotation) {
    return BasisRotation<float>::Bytes(table);
  }
  return AdamW<float>::Bytes(table);
}

int64_t OptimizerStateBytes(const OptimizerSpec& spec,
                            const ParameterTable& table) {
  int64_t elements = 2 * table.parameter_count();
  if (spec.kind == OptimizerKind::kBasisRotation) {
    for (const Param& p : table.params()) {
      if (p.group != ParamGroup::kMatrix) continue;
      elements += 2 * (p.rows * p.rows + p.cols * p.cols);
    }
  }
  return elements * 4;
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

#define GIMBAL_INSTANTIATE(T)                              \
  template std::unique_ptr<Optimizer<T>> MakeOptimizer<T>( \
      const OptimizerSpec&, const ParameterTable&);        \
  template std::vector<double> LayerSquareSums(const ParameterTable&, const T*);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

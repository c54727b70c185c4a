#include "worker/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "worker/compute/gemm.h"
#include "worker/compute/isa.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/adamw.h"
#include "worker/optim/kernels.h"
#include "worker/optim/lapack.h"

namespace gimbal::worker {
namespace {

using compute::Trans;

template <typename T>
void MirrorLower(int64_t n, T* a) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
  }
}

}  // namespace

int64_t NewtonSchulzScratch(int64_t rows, int64_t cols) {
  const int64_t k = std::min(rows, cols);
  return 2 * k * k + rows * cols;
}

template <typename T>
void NewtonSchulz(int64_t rows, int64_t cols, int steps, T* x,
                  std::span<T> scratch) {
  const int64_t size = rows * cols;
  const int64_t k = std::min(rows, cols);
  const double norm =
      std::sqrt(compute::Kernels<OptimKernels<T>>().square_sum(size, x));
  if (!(norm > 0) || !std::isfinite(norm)) {
    std::fill_n(x, size, T{0});
    return;
  }
  const T factor = static_cast<T>(1 / norm);
  for (int64_t i = 0; i < size; ++i) x[i] *= factor;
  T* gram = scratch.data();
  T* poly = gram + k * k;
  T* product = poly + k * k;
  for (int step = 0; step < steps; ++step) {
    if (rows <= cols) {
      SyrkRows<T>(k, cols, 1, x, 0, gram);
    } else {
      SyrkColumns<T>(k, rows, 1, x, 0, gram);
    }
    MirrorLower(k, gram);
    std::copy_n(gram, k * k, poly);  // poly = b A + c A A
    compute::Gemm<T>(Trans::kNo, Trans::kNo, k, k, k,
                     static_cast<T>(kNewtonSchulzC), gram, k, gram, k,
                     static_cast<T>(kNewtonSchulzB), poly, k);
    std::copy_n(x, size, product);
    if (rows <= cols) {
      compute::Gemm<T>(Trans::kNo, Trans::kNo, rows, cols, k, 1, poly, k, x,
                       cols, static_cast<T>(kNewtonSchulzA), product, cols);
    } else {
      compute::Gemm<T>(Trans::kNo, Trans::kNo, rows, cols, k, 1, x, cols, poly,
                       k, static_cast<T>(kNewtonSchulzA), product, cols);
    }
    std::copy_n(product, size, x);
  }
}

template <typename T>
Muon<T>::Muon(const Param& param, const OptimizerSpec& spec,
              compute::Carver<T>& memory)
    : param_(param),
      spec_(spec),
      m_(memory.Take(param.size())),
      o_(memory.Take(param.size())) {}

template <typename T>
double Muon<T>::Scale() const {
  return 0.2 *
         std::sqrt(static_cast<double>(std::max(param_.rows, param_.cols)));
}

template <typename T>
void Muon<T>::Step(const StepContext<T>& context, const T* old_weights,
                   const T* grads, T* new_weights,
                   const OptimizerScratch<T>& scratch) {
  const int64_t n = param_.size();
  if (MomentsReset(spec_, context.update)) std::fill_n(m_, n, T{0});
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  kernels.momentum(n, spec_.muon.momentum, context.scale, spec_.nesterov, grads,
                   m_, o_);
  NewtonSchulz<T>(param_.rows, param_.cols, spec_.muon.iterations, o_,
                  scratch.values);
  const double lr = context.lr * LrFactor(context, param_);
  kernels.apply(n, 1 - lr * spec_.weight_decay, lr * Scale(), old_weights, o_,
                new_weights);
}

template <typename T>
void Muon<T>::Predict(const PredictContext& context, const T* weights,
                      T* predicted, const OptimizerScratch<T>&) {
  const double lr =
      std::accumulate(context.lrs.begin(), context.lrs.end(), 0.0) *
      LrFactor(context, param_);
  compute::Kernels<OptimKernels<T>>().apply(param_.size(), 1, lr * Scale(),
                                            weights, o_, predicted);
}

template <typename T>
std::vector<StateTensor<T>> Muon<T>::State() const {
  return {{param_.name + ".m", param_.layer, param_.rows, param_.cols, m_}};
}

template <typename T>
ScratchSize Muon<T>::scratch_size() const {
  return {.values = NewtonSchulzScratch(param_.rows, param_.cols)};
}

#define GIMBAL_INSTANTIATE(T) \
  template class Muon<T>;     \
  template void NewtonSchulz(int64_t, int64_t, int, T*, std::span<T>);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

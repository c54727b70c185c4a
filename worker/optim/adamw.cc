#include "worker/optim/adamw.h"

#include <algorithm>

#include "worker/compute/isa.h"

namespace gimbal::worker {
namespace {

// Terms that one pass of the prediction kernel adds up.
constexpr size_t kTermsPerPass = 32;

}  // namespace

template <typename T>
AdamW<T>::AdamW(const Param& param, AdamRule& rule, compute::Carver<T>& memory)
    : param_(param),
      rule_(rule),
      m_(memory.Take(param.size())),
      v_(memory.Take(param.size())) {}

template <typename T>
void AdamW<T>::Step(const StepContext<T>& context, const T* old_weights,
                    const T* grads, T* new_weights,
                    const OptimizerScratch<T>&) {
  const int64_t n = param_.size();
  if (MomentsReset(rule_.spec(), context.update)) {
    std::fill_n(m_, n, T{0});
    std::fill_n(v_, n, T{0});
  }
  const AdamWRule& rule = rule_.At(
      context.update, context.lr * LrFactor(context, param_), context.scale);
  compute::Kernels<OptimKernels<T>>().adamw(n, rule, old_weights, grads, m_, v_,
                                            new_weights);
}

template <typename T>
void AdamW<T>::Predict(const PredictContext& context, const T* weights,
                       T* predicted, const OptimizerScratch<T>&) {
  const double factor = LrFactor(context, param_);
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  const size_t updates = context.lrs.size();
  if (updates == 0) std::copy_n(weights, param_.size(), predicted);
  for (size_t begin = 0; begin < updates; begin += kTermsPerPass) {
    const size_t count = std::min(kTermsPerPass, updates - begin);
    PredictionTerm terms[kTermsPerPass];
    for (size_t i = 0; i < count; ++i) {
      terms[i] =
          rule_.Ahead(context.update, static_cast<int64_t>(begin + i) + 1,
                      context.lrs[begin + i] * factor);
    }
    kernels.predict(param_.size(), terms, static_cast<int64_t>(count),
                    rule_.spec().eps, begin == 0 ? weights : predicted, m_, v_,
                    predicted);
  }
}

template <typename T>
std::vector<StateTensor<T>> AdamW<T>::State() const {
  return {{param_.name + ".m", param_.layer, param_.rows, param_.cols, m_},
          {param_.name + ".v", param_.layer, param_.rows, param_.cols, v_}};
}

template class AdamW<float>;
template class AdamW<double>;

}  // namespace gimbal::worker

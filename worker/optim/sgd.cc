#include "worker/optim/sgd.h"

#include <algorithm>
#include <numeric>

#include "worker/compute/isa.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/adamw.h"
#include "worker/optim/kernels.h"

namespace gimbal::worker {

template <typename T>
Sgd<T>::Sgd(const Param& param, const OptimizerSpec& spec,
            compute::Carver<T>& memory)
    : param_(param), spec_(spec), m_(memory.Take(param.size())) {}

template <typename T>
void Sgd<T>::Step(const StepContext<T>& context, const T* old_weights,
                  const T* grads, T* new_weights, const OptimizerScratch<T>&) {
  if (MomentsReset(spec_, context.update)) {
    std::fill_n(m_, param_.size(), T{0});
  }
  const double lr = context.lr * LrFactor(context, param_);
  compute::Kernels<OptimKernels<T>>().sgd(
      param_.size(), spec_.beta1, context.scale, spec_.nesterov,
      1 - lr * spec_.weight_decay, lr, old_weights, grads, m_, new_weights);
}

template <typename T>
void Sgd<T>::Predict(const PredictContext& context, const T* weights,
                     T* predicted, const OptimizerScratch<T>&) {
  const double lr =
      std::accumulate(context.lrs.begin(), context.lrs.end(), 0.0) *
      LrFactor(context, param_);
  compute::Kernels<OptimKernels<T>>().apply(param_.size(), 1, lr, weights, m_,
                                            predicted);
}

template <typename T>
std::vector<StateTensor<T>> Sgd<T>::State() const {
  return {{param_.name + ".m", param_.layer, param_.rows, param_.cols, m_}};
}

template class Sgd<float>;
template class Sgd<double>;

}  // namespace gimbal::worker

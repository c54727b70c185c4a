#include "worker/model/head.h"

#include <algorithm>

#include "worker/compute/cross_entropy.h"
#include "worker/compute/isa.h"
#include "worker/compute/layer_norm.h"
#include "worker/compute/linear.h"

namespace gimbal::worker {

using compute::Kernels;
using compute::LinearShape;

template <typename T>
Head<T>::Head(const StageSpec& spec, const ParameterTable& table)
    : spec_(spec),
      norm_weight_(table.at("ln_f.weight").offset),
      norm_bias_(table.at("ln_f.bias").offset),
      head_weight_(table.at("lm_head.weight").offset),
      head_bias_(spec.model.head_bias ? table.at("lm_head.bias").offset : 0) {}

template <typename T>
double Head<T>::Forward(const T* weights, const T* x, const int32_t* targets,
                        const HeadActivations<T>& act,
                        const Scratch<T>& scratch) const {
  const int64_t n = Rows(spec_);
  const int64_t c = spec_.model.hidden;
  const int64_t v = spec_.model.vocab;
  Kernels<compute::LayerNorm<T>>().forward(
      n, c, static_cast<T>(spec_.model.norm_eps), x, weights + norm_weight_,
      weights + norm_bias_, scratch.narrow, act.mean, act.rstd);
  compute::LinearForward<T>(
      LinearShape{n, c, v}, scratch.narrow, weights + head_weight_,
      spec_.model.head_bias ? weights + head_bias_ : nullptr, nullptr,
      act.logits);
  const double sum = Kernels<compute::CrossEntropy<T>>().forward(
      n, v, act.logits, targets, act.lse);
  return sum / static_cast<double>(n);
}

template <typename T>
void Head<T>::Backward(const T* weights, const T* x, const int32_t* targets,
                       double loss_scale, const HeadActivations<T>& act,
                       const Scratch<T>& scratch, T* grads, T* dx) const {
  const int64_t n = Rows(spec_);
  const int64_t c = spec_.model.hidden;
  const int64_t v = spec_.model.vocab;
  Kernels<compute::CrossEntropy<T>>().backward(
      n, v, targets, act.lse,
      static_cast<T>(loss_scale / static_cast<double>(n)), act.logits);
  const T* dlogits = act.logits;
  compute::LinearBackwardInput<T>(LinearShape{n, c, v}, dlogits,
                                  weights + head_weight_, scratch.narrow);
  std::fill_n(dx, n * c, T{0});
  Kernels<compute::LayerNorm<T>>().backward(
      n, c, x, weights + norm_weight_, weights + norm_bias_, act.mean, act.rstd,
      scratch.narrow, grads + norm_weight_, grads + norm_bias_, dx);
  compute::LinearBackwardWeight<T>(
      LinearShape{n, c, v}, dlogits, scratch.narrow, grads + head_weight_,
      spec_.model.head_bias ? grads + head_bias_ : nullptr);
}

template class Head<float>;
template class Head<double>;

}  // namespace gimbal::worker

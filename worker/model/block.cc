#include "worker/model/block.h"

#include <string>

#include "worker/compute/activation.h"
#include "worker/compute/attention.h"
#include "worker/compute/isa.h"
#include "worker/compute/layer_norm.h"
#include "worker/compute/linear.h"

namespace gimbal::worker {
namespace {

using compute::Kernels;
using compute::LinearShape;

constexpr int64_t kAbsent = -1;

template <typename T>
T* At(T* arena, int64_t offset) {
  return offset == kAbsent ? nullptr : arena + offset;
}

template <typename T>
const compute::ActivationFunction<T>& FunctionOf(Activation activation) {
  const auto& kernels = Kernels<compute::Activations<T>>();
  switch (activation) {
    case Activation::kGeluErf:
      return kernels.gelu_erf;
    case Activation::kRelu:
      return kernels.relu;
    case Activation::kGeluTanh:
      break;
  }
  return kernels.gelu_tanh;
}

}  // namespace

template <typename T>
Block<T>::Block(const StageSpec& spec, const ParameterTable& table, int index)
    : spec_(spec) {
  const auto offset = [&](const char* name) {
    return table.at("h." + std::to_string(index) + "." + name).offset;
  };
  ln1_weight_ = offset("ln1.weight");
  ln1_bias_ = offset("ln1.bias");
  qkv_weight_ = offset("attn.q.weight");
  qkv_bias_ = spec.model.qkv_bias ? offset("attn.q.bias") : kAbsent;
  proj_weight_ = offset("attn.proj.weight");
  proj_bias_ = offset("attn.proj.bias");
  ln2_weight_ = offset("ln2.weight");
  ln2_bias_ = offset("ln2.bias");
  fc_weight_ = offset("mlp.fc.weight");
  fc_bias_ = offset("mlp.fc.bias");
  mlp_proj_weight_ = offset("mlp.proj.weight");
  mlp_proj_bias_ = offset("mlp.proj.bias");
}

template <typename T>
void Block<T>::Forward(const T* weights, const BlockActivations<T>& act,
                       const Scratch<T>& scratch, T* y) const {
  const int64_t n = Rows(spec_);
  const int64_t c = spec_.model.hidden;
  const int64_t m = spec_.model.mlp_hidden;
  const T eps = static_cast<T>(spec_.model.norm_eps);
  const auto& norm = Kernels<compute::LayerNorm<T>>();

  norm.forward(n, c, eps, act.x, weights + ln1_weight_, weights + ln1_bias_,
               scratch.narrow, act.ln1_mean, act.ln1_rstd);
  compute::LinearForward<T>(LinearShape{n, c, 3 * c}, scratch.narrow,
                            weights + qkv_weight_, At(weights, qkv_bias_),
                            nullptr, act.qkv);
  compute::AttentionForward<T>(HeadsOf(spec_), act.qkv, act.attention, act.lse,
                               scratch.attention);
  compute::LinearForward<T>(LinearShape{n, c, c}, act.attention,
                            weights + proj_weight_, weights + proj_bias_, act.x,
                            act.mid);

  norm.forward(n, c, eps, act.mid, weights + ln2_weight_, weights + ln2_bias_,
               scratch.narrow, act.ln2_mean, act.ln2_rstd);
  compute::LinearForward<T>(LinearShape{n, c, m}, scratch.narrow,
                            weights + fc_weight_, weights + fc_bias_, nullptr,
                            act.fc);
  FunctionOf<T>(spec_.model.activation).forward(n * m, act.fc, scratch.wide);
  compute::LinearForward<T>(LinearShape{n, m, c}, scratch.wide,
                            weights + mlp_proj_weight_,
                            weights + mlp_proj_bias_, act.mid, y);
}

template <typename T>
void Block<T>::Backward(const T* weights, const BlockActivations<T>& act,
                        const Scratch<T>& scratch, T* grads,
                        T* residual) const {
  BackwardMlp(weights, act, scratch, grads, residual);
  BackwardAttention(weights, act, scratch, grads, residual);
}

template <typename T>
void Block<T>::BackwardMlp(const T* weights, const BlockActivations<T>& act,
                           const Scratch<T>& scratch, T* grads,
                           T* residual) const {
  const int64_t n = Rows(spec_);
  const int64_t c = spec_.model.hidden;
  const int64_t m = spec_.model.mlp_hidden;
  T* dfc = scratch.wide;
  compute::LinearBackwardInput<T>(LinearShape{n, m, c}, residual,
                                  weights + mlp_proj_weight_, dfc);
  FunctionOf<T>(spec_.model.activation).backward(n * m, act.fc, dfc);
  compute::LinearBackwardWeight<T>(LinearShape{n, m, c}, residual, act.fc,
                                   grads + mlp_proj_weight_,
                                   grads + mlp_proj_bias_);
  compute::LinearBackwardInput<T>(LinearShape{n, c, m}, dfc,
                                  weights + fc_weight_, scratch.narrow);
  Kernels<compute::LayerNorm<T>>().backward(
      n, c, act.mid, weights + ln2_weight_, weights + ln2_bias_, act.ln2_mean,
      act.ln2_rstd, scratch.narrow, grads + ln2_weight_, grads + ln2_bias_,
      residual);
  compute::LinearBackwardWeight<T>(LinearShape{n, c, m}, dfc, scratch.narrow,
                                   grads + fc_weight_, grads + fc_bias_);
}

template <typename T>
void Block<T>::BackwardAttention(const T* weights,
                                 const BlockActivations<T>& act,
                                 const Scratch<T>& scratch, T* grads,
                                 T* residual) const {
  const int64_t n = Rows(spec_);
  const int64_t c = spec_.model.hidden;
  T* dqkv = scratch.wide;
  compute::LinearBackwardWeight<T>(LinearShape{n, c, c}, residual,
                                   act.attention, grads + proj_weight_,
                                   grads + proj_bias_);
  compute::LinearBackwardInput<T>(LinearShape{n, c, c}, residual,
                                  weights + proj_weight_, scratch.narrow);
  compute::AttentionBackward<T>(HeadsOf(spec_), act.qkv, act.attention, act.lse,
                                scratch.narrow, dqkv, scratch.attention);
  compute::LinearBackwardInput<T>(LinearShape{n, c, 3 * c}, dqkv,
                                  weights + qkv_weight_, scratch.narrow);
  Kernels<compute::LayerNorm<T>>().backward(
      n, c, act.x, weights + ln1_weight_, weights + ln1_bias_, act.ln1_mean,
      act.ln1_rstd, scratch.narrow, grads + ln1_weight_, grads + ln1_bias_,
      residual);
  compute::LinearBackwardWeight<T>(LinearShape{n, c, 3 * c}, dqkv,
                                   scratch.narrow, grads + qkv_weight_,
                                   At(grads, qkv_bias_));
}

template class Block<float>;
template class Block<double>;

}  // namespace gimbal::worker

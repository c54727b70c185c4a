#include "worker/pipeline/cuda/cuda_model.h"

#include <string>

#include "worker/compute/cuda/activation.h"
#include "worker/compute/cuda/attention.h"
#include "worker/compute/cuda/cross_entropy.h"
#include "worker/compute/cuda/embedding.h"
#include "worker/compute/cuda/layer_norm.h"
#include "worker/compute/cuda/reduce.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;
using compute::LinearShape;

// Of a bias that the model does not have.
constexpr int64_t kAbsent = -1;

template <typename T>
T* At(T* arena, int64_t offset) {
  return offset == kAbsent ? nullptr : arena + offset;
}

}  // namespace

// Of a block's parameters in an arena.
template <typename T>
struct CudaModel<T>::BlockOffsets {
  BlockOffsets(const StageSpec& spec, const ParameterTable& table, int index) {
    const auto offset = [&](const char* name) {
      return table.at("h." + std::to_string(index) + "." + name).offset;
    };
    ln1_weight = offset("ln1.weight");
    ln1_bias = offset("ln1.bias");
    qkv_weight = offset("attn.q.weight");
    qkv_bias = spec.model.qkv_bias ? offset("attn.q.bias") : kAbsent;
    proj_weight = offset("attn.proj.weight");
    proj_bias = offset("attn.proj.bias");
    ln2_weight = offset("ln2.weight");
    ln2_bias = offset("ln2.bias");
    fc_weight = offset("mlp.fc.weight");
    fc_bias = offset("mlp.fc.bias");
    mlp_proj_weight = offset("mlp.proj.weight");
    mlp_proj_bias = offset("mlp.proj.bias");
  }

  int64_t ln1_weight, ln1_bias, qkv_weight, qkv_bias, proj_weight, proj_bias;
  int64_t ln2_weight, ln2_bias, fc_weight, fc_bias, mlp_proj_weight,
      mlp_proj_bias;
};

template <typename T>
CudaModel<T>::CudaModel(const StageSpec& spec, const ParameterTable& table,
                        cudaStream_t stream, cuda::Gemm& gemm)
    : spec_(spec),
      table_(table),
      stream_(stream),
      n_(Rows(spec)),
      c_(spec.model.hidden),
      m_(spec.model.mlp_hidden),
      gemm_(gemm) {
  for (int i = 0; i < spec.blocks; ++i) {
    blocks_.emplace_back(spec, table, spec.first_block + i);
  }
  memory_ = cuda::DeviceBuffer<float>(CudaWork<T>::Size(spec));
  compute::Carver<float> carver(memory_.data());
  work_ = CudaWork<T>::Take(spec, carver);
}

template <typename T>
CudaModel<T>::~CudaModel() = default;

template <typename T>
typename CudaModel<T>::Slot CudaModel<T>::NewSlot() const {
  Slot slot;
  slot.memory = cuda::DeviceBuffer<float>(CudaActivations<T>::Size(spec_));
  compute::Carver<float> carver(slot.memory.data());
  slot.act = CudaActivations<T>::Take(spec_, carver);
  slot.ids = cuda::DeviceBuffer<int32_t>(CudaTokenCount(spec_));
  slot.targets = cuda::DeviceBuffer<int32_t>(CudaTargetCount(spec_));
  return slot;
}

template <typename T>
void CudaModel<T>::SetTokens(const int32_t* host, Slot& slot) {
  const cuda::TokenGroups groups =
      cuda::GroupTokens(n_, spec_.model.vocab, host);
  slot.groups = groups.groups();
  const auto copy = [this](int32_t* to, const int32_t* from, int64_t count) {
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(count) * 4,
                                      cudaMemcpyHostToDevice, stream_));
  };
  int32_t* ids = slot.ids.data();
  copy(ids, host, n_);
  copy(ids + n_, groups.row.data(), n_);
  copy(ids + 2 * n_, groups.token.data(), slot.groups);
  copy(ids + 3 * n_, groups.begin.data(), slot.groups + 1);
  // The groups end here.
  GIMBAL_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

template <typename T>
void CudaModel<T>::Forward(const CudaWeights<T>& weights, Slot& slot,
                           double* loss) {
  if (spec_.first) {
    cuda::EmbeddingForward(
        stream_, spec_.microbatch, spec_.model.context, c_, slot.ids.data(),
        weights.fp32 + table_.at("wte").offset,
        weights.fp32 + table_.at("wpe").offset, slot.act.input());
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    ForwardBlock(
        weights, blocks_[i], slot.act.blocks[i],
        i + 1 < blocks_.size() ? slot.act.blocks[i + 1].x : slot.act.output);
  }
  if (spec_.last) ForwardHead(weights, slot, loss);
}

template <typename T>
void CudaModel<T>::Norm(const CudaWeights<T>& weights, int64_t weight,
                        int64_t bias, const T* x, float* mean, float* rstd) {
  cuda::LayerNormForward(
      stream_, n_, c_, static_cast<float>(spec_.model.norm_eps), x,
      weights.fp32 + weight, weights.fp32 + bias, work_.narrow, mean, rstd);
}

template <typename T>
void CudaModel<T>::ForwardBlock(const CudaWeights<T>& weights,
                                const BlockOffsets& at,
                                const BlockActivations<T, float>& act, T* y) {
  const T* w = weights.factors;
  Norm(weights, at.ln1_weight, at.ln1_bias, act.x, act.ln1_mean, act.ln1_rstd);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, 3 * c_}, work_.narrow,
                      w + at.qkv_weight, At(w, at.qkv_bias), nullptr, act.qkv);
  cuda::AttentionForward(stream_, HeadsOf(spec_), act.qkv, act.attention,
                         act.lse);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, c_}, act.attention,
                      w + at.proj_weight, w + at.proj_bias, act.x, act.mid);
  Norm(weights, at.ln2_weight, at.ln2_bias, act.mid, act.ln2_mean,
       act.ln2_rstd);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, m_}, work_.narrow,
                      w + at.fc_weight, w + at.fc_bias, nullptr, act.fc);
  cuda::ActivationForward(stream_, spec_.model.activation, n_ * m_, act.fc,
                          work_.wide);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, m_, c_}, work_.wide,
                      w + at.mlp_proj_weight, w + at.mlp_proj_bias, act.mid, y);
}

template <typename T>
void CudaModel<T>::ForwardHead(const CudaWeights<T>& weights, Slot& slot,
                               double* loss) {
  const int64_t v = spec_.model.vocab;
  const HeadActivations<T, float>& act = slot.act.head;
  const T* w = weights.factors;
  Norm(weights, table_.at("ln_f.weight").offset, table_.at("ln_f.bias").offset,
       slot.act.output, act.mean, act.rstd);
  const T* bias =
      spec_.model.head_bias ? w + table_.at("lm_head.bias").offset : nullptr;
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, v}, work_.narrow,
                      w + table_.at("lm_head.weight").offset, bias, nullptr,
                      act.logits);
  cuda::CrossEntropy(stream_, n_, v, 1.0f / static_cast<float>(n_),
                     slot.targets.data(), act.logits, act.lse);
  cuda::Sum(stream_, n_, act.lse, loss);
}

template <typename T>
void CudaModel<T>::Backward(const CudaWeights<T>& weights, double loss_scale,
                            Slot& slot, float* grads, T* residual) {
  if (spec_.last) BackwardHead(weights, loss_scale, slot, grads, residual);
  for (size_t i = blocks_.size(); i-- > 0;) {
    BackwardMlp(weights, blocks_[i], slot.act.blocks[i], grads, residual);
    BackwardAttention(weights, blocks_[i], slot.act.blocks[i], grads, residual);
  }
}

template <typename T>
void CudaModel<T>::BackwardEmbedding(const Slot& slot, const T* residual,
                                     float* grads) {
  const int32_t* ids = slot.ids.data();
  cuda::EmbeddingBackward(stream_, spec_.microbatch, spec_.model.context, c_,
                          slot.groups, ids + 2 * n_, ids + 3 * n_, ids + n_,
                          residual, grads + table_.at("wte").offset,
                          grads + table_.at("wpe").offset);
}

template <typename T>
void CudaModel<T>::WeightGradient(const LinearShape& shape, float alpha,
                                  const T* dy, const T* x, float* dw,
                                  float* dbias) {
  cuda::LinearBackwardWeight(stream_, gemm_, shape, alpha, dy, x, dw);
  if (dbias == nullptr) return;
  cuda::ColumnSum(stream_, shape.rows, shape.out, alpha, dy, dbias, work_.sums);
}

template <typename T>
void CudaModel<T>::NormBackward(const CudaWeights<T>& weights, int64_t weight,
                                int64_t bias, const T* x, const float* mean,
                                const float* rstd, float* grads, T* residual) {
  cuda::LayerNormBackward(stream_, n_, c_, x, weights.fp32 + weight,
                          weights.fp32 + bias, mean, rstd, work_.narrow,
                          grads + weight, grads + bias, residual, work_.sums);
}

// The logits' gradient is that of the mean loss: the scale goes into what is
// made from it.
template <typename T>
void CudaModel<T>::BackwardHead(const CudaWeights<T>& weights,
                                double loss_scale, Slot& slot, float* grads,
                                T* dx) {
  const LinearShape shape{n_, c_, spec_.model.vocab};
  const auto scale = static_cast<float>(loss_scale);
  const HeadActivations<T, float>& act = slot.act.head;
  const int64_t weight = table_.at("lm_head.weight").offset;
  cuda::LinearBackwardInput(stream_, gemm_, shape, scale, act.logits,
                            weights.factors + weight, work_.narrow);
  GIMBAL_CUDA_CHECK(cudaMemsetAsync(
      dx, 0, static_cast<size_t>(n_ * c_) * sizeof(T), stream_));
  NormBackward(weights, table_.at("ln_f.weight").offset,
               table_.at("ln_f.bias").offset, slot.act.output, act.mean,
               act.rstd, grads, dx);
  WeightGradient(shape, scale, act.logits, work_.narrow, grads + weight,
                 spec_.model.head_bias
                     ? grads + table_.at("lm_head.bias").offset
                     : nullptr);
}

template <typename T>
void CudaModel<T>::BackwardMlp(const CudaWeights<T>& weights,
                               const BlockOffsets& at,
                               const BlockActivations<T, float>& act,
                               float* grads, T* residual) {
  const T* w = weights.factors;
  T* dfc = work_.wide;
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, m_, c_}, 1,
                            residual, w + at.mlp_proj_weight, dfc);
  cuda::ActivationBackward(stream_, spec_.model.activation, n_ * m_, act.fc,
                           dfc);
  WeightGradient(LinearShape{n_, m_, c_}, 1, residual, act.fc,
                 grads + at.mlp_proj_weight, grads + at.mlp_proj_bias);
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, c_, m_}, 1, dfc,
                            w + at.fc_weight, work_.narrow);
  NormBackward(weights, at.ln2_weight, at.ln2_bias, act.mid, act.ln2_mean,
               act.ln2_rstd, grads, residual);
  WeightGradient(LinearShape{n_, c_, m_}, 1, dfc, work_.narrow,
                 grads + at.fc_weight, grads + at.fc_bias);
}

template <typename T>
void CudaModel<T>::BackwardAttention(const CudaWeights<T>& weights,
                                     const BlockOffsets& at,
                                     const BlockActivations<T, float>& act,
                                     float* grads, T* residual) {
  const T* w = weights.factors;
  T* dqkv = work_.wide;
  WeightGradient(LinearShape{n_, c_, c_}, 1, residual, act.attention,
                 grads + at.proj_weight, grads + at.proj_bias);
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, c_, c_}, 1,
                            residual, w + at.proj_weight, work_.narrow);
  cuda::AttentionBackward(stream_, HeadsOf(spec_), act.qkv, act.attention,
                          act.lse, work_.narrow, dqkv, work_.sums);
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, c_, 3 * c_}, 1,
                            dqkv, w + at.qkv_weight, work_.narrow);
  NormBackward(weights, at.ln1_weight, at.ln1_bias, act.x, act.ln1_mean,
               act.ln1_rstd, grads, residual);
  WeightGradient(LinearShape{n_, c_, 3 * c_}, 1, dqkv, work_.narrow,
                 grads + at.qkv_weight, At(grads, at.qkv_bias));
}

template class CudaModel<float>;
template class CudaModel<cuda::Bf16>;

}  // namespace gimbal::worker

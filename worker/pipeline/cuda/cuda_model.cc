#include "worker/pipeline/cuda/cuda_model.h"

#include <algorithm>
#include <string>

#include "worker/compute/cuda/activation.h"
#include "worker/compute/cuda/attention.h"
#include "worker/compute/cuda/cross_entropy.h"
#include "worker/compute/cuda/embedding.h"
#include "worker/compute/cuda/layer_norm.h"
#include "worker/compute/cuda/reduce.h"
#include "worker/model/scratch.h"

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
struct CudaModel::BlockOffsets {
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

CudaModel::Work CudaModel::Work::Take(const StageSpec& spec,
                                      compute::Carver<float>& carver) {
  const int64_t n = Rows(spec), c = spec.model.hidden;
  const int64_t wide = std::max<int64_t>(3 * c, spec.model.mlp_hidden);
  const int64_t widest =
      std::max<int64_t>(wide, spec.last ? spec.model.vocab : 0);
  Work work;
  work.wide = carver.Take(n * wide);
  work.narrow = carver.Take(n * c);
  work.sums = carver.Take(
      std::max({cuda::LayerNormScratch(c), cuda::ColumnSumScratch(widest),
                cuda::AttentionBackwardScratch(HeadsOf(spec))}));
  return work;
}

CudaModel::CudaModel(const StageSpec& spec, const ParameterTable& table,
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
  compute::Carver<float> counter(nullptr);
  Work::Take(spec, counter);
  memory_ = cuda::DeviceBuffer<float>(counter.used());
  compute::Carver<float> carver(memory_.data());
  work_ = Work::Take(spec, carver);
}

CudaModel::~CudaModel() = default;

CudaModel::Slot CudaModel::NewSlot() const {
  const auto take = [this](compute::Carver<float>& carver, Slot& slot) {
    slot.blocks.clear();
    for (int i = 0; i < spec_.blocks; ++i) {
      slot.blocks.push_back(BlockActivations<float>::Take(spec_, carver));
    }
    slot.output = carver.Take(n_ * c_);
    if (spec_.last) slot.head = HeadActivations<float>::Take(spec_, carver);
  };
  Slot slot;
  compute::Carver<float> counter(nullptr);
  take(counter, slot);
  slot.memory = cuda::DeviceBuffer<float>(counter.used());
  compute::Carver<float> carver(slot.memory.data());
  take(carver, slot);
  // Ids and rows, N each; token and begin, at most N and N + 1.
  if (spec_.first) slot.ids = cuda::DeviceBuffer<int32_t>(4 * n_ + 1);
  if (spec_.last) slot.targets = cuda::DeviceBuffer<int32_t>(n_);
  return slot;
}

void CudaModel::SetTokens(const int32_t* host, Slot& slot) {
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

void CudaModel::Forward(const float* weights, Slot& slot, double* loss) {
  if (spec_.first) {
    cuda::EmbeddingForward(stream_, spec_.microbatch, spec_.model.context, c_,
                           slot.ids.data(), weights + table_.at("wte").offset,
                           weights + table_.at("wpe").offset, slot.input());
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    ForwardBlock(weights, blocks_[i], slot.blocks[i],
                 i + 1 < blocks_.size() ? slot.blocks[i + 1].x : slot.output);
  }
  if (spec_.last) ForwardHead(weights, slot, loss);
}

void CudaModel::Norm(const float* weights, int64_t weight, int64_t bias,
                     const float* x, float* mean, float* rstd) {
  cuda::LayerNormForward(
      stream_, n_, c_, static_cast<float>(spec_.model.norm_eps), x,
      weights + weight, weights + bias, work_.narrow, mean, rstd);
}

void CudaModel::ForwardBlock(const float* weights, const BlockOffsets& at,
                             const BlockActivations<float>& act, float* y) {
  Norm(weights, at.ln1_weight, at.ln1_bias, act.x, act.ln1_mean, act.ln1_rstd);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, 3 * c_}, work_.narrow,
                      weights + at.qkv_weight, At(weights, at.qkv_bias),
                      nullptr, act.qkv);
  cuda::AttentionForward(stream_, HeadsOf(spec_), act.qkv, act.attention,
                         act.lse);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, c_}, act.attention,
                      weights + at.proj_weight, weights + at.proj_bias, act.x,
                      act.mid);
  Norm(weights, at.ln2_weight, at.ln2_bias, act.mid, act.ln2_mean,
       act.ln2_rstd);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, m_}, work_.narrow,
                      weights + at.fc_weight, weights + at.fc_bias, nullptr,
                      act.fc);
  cuda::ActivationForward(stream_, spec_.model.activation, n_ * m_, act.fc,
                          work_.wide);
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, m_, c_}, work_.wide,
                      weights + at.mlp_proj_weight, weights + at.mlp_proj_bias,
                      act.mid, y);
}

void CudaModel::ForwardHead(const float* weights, Slot& slot, double* loss) {
  const int64_t v = spec_.model.vocab;
  const HeadActivations<float>& act = slot.head;
  Norm(weights, table_.at("ln_f.weight").offset, table_.at("ln_f.bias").offset,
       slot.output, act.mean, act.rstd);
  const float* bias = spec_.model.head_bias
                          ? weights + table_.at("lm_head.bias").offset
                          : nullptr;
  cuda::LinearForward(stream_, gemm_, LinearShape{n_, c_, v}, work_.narrow,
                      weights + table_.at("lm_head.weight").offset, bias,
                      nullptr, act.logits);
  cuda::CrossEntropy(stream_, n_, v, 1.0f / static_cast<float>(n_),
                     slot.targets.data(), act.logits, act.lse);
  cuda::Sum(stream_, n_, act.lse, loss);
}

void CudaModel::Backward(const float* weights, double loss_scale, Slot& slot,
                         float* grads, float* residual) {
  if (spec_.last) BackwardHead(weights, loss_scale, slot, grads, residual);
  for (size_t i = blocks_.size(); i-- > 0;) {
    BackwardMlp(weights, blocks_[i], slot.blocks[i], grads, residual);
    BackwardAttention(weights, blocks_[i], slot.blocks[i], grads, residual);
  }
}

void CudaModel::BackwardEmbedding(const Slot& slot, const float* residual,
                                  float* grads) {
  const int32_t* ids = slot.ids.data();
  cuda::EmbeddingBackward(stream_, spec_.microbatch, spec_.model.context, c_,
                          slot.groups, ids + 2 * n_, ids + 3 * n_, ids + n_,
                          residual, grads + table_.at("wte").offset,
                          grads + table_.at("wpe").offset);
}

void CudaModel::WeightGradient(const LinearShape& shape, float alpha,
                               const float* dy, const float* x, float* dw,
                               float* dbias) {
  cuda::LinearBackwardWeight(stream_, gemm_, shape, alpha, dy, x, dw);
  if (dbias == nullptr) return;
  cuda::ColumnSum(stream_, shape.rows, shape.out, alpha, dy, dbias, work_.sums);
}

void CudaModel::NormBackward(const float* weights, int64_t weight, int64_t bias,
                             const float* x, const float* mean,
                             const float* rstd, float* grads, float* residual) {
  cuda::LayerNormBackward(stream_, n_, c_, x, weights + weight, weights + bias,
                          mean, rstd, work_.narrow, grads + weight,
                          grads + bias, residual, work_.sums);
}

// The logits' gradient is that of the mean loss: the scale goes into what is
// made from it.
void CudaModel::BackwardHead(const float* weights, double loss_scale,
                             Slot& slot, float* grads, float* dx) {
  const LinearShape shape{n_, c_, spec_.model.vocab};
  const auto scale = static_cast<float>(loss_scale);
  const HeadActivations<float>& act = slot.head;
  const int64_t weight = table_.at("lm_head.weight").offset;
  cuda::LinearBackwardInput(stream_, gemm_, shape, scale, act.logits,
                            weights + weight, work_.narrow);
  GIMBAL_CUDA_CHECK(
      cudaMemsetAsync(dx, 0, static_cast<size_t>(n_ * c_) * 4, stream_));
  NormBackward(weights, table_.at("ln_f.weight").offset,
               table_.at("ln_f.bias").offset, slot.output, act.mean, act.rstd,
               grads, dx);
  WeightGradient(shape, scale, act.logits, work_.narrow, grads + weight,
                 spec_.model.head_bias
                     ? grads + table_.at("lm_head.bias").offset
                     : nullptr);
}

void CudaModel::BackwardMlp(const float* weights, const BlockOffsets& at,
                            const BlockActivations<float>& act, float* grads,
                            float* residual) {
  float* dfc = work_.wide;
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, m_, c_}, 1,
                            residual, weights + at.mlp_proj_weight, dfc);
  cuda::ActivationBackward(stream_, spec_.model.activation, n_ * m_, act.fc,
                           dfc);
  WeightGradient(LinearShape{n_, m_, c_}, 1, residual, act.fc,
                 grads + at.mlp_proj_weight, grads + at.mlp_proj_bias);
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, c_, m_}, 1, dfc,
                            weights + at.fc_weight, work_.narrow);
  NormBackward(weights, at.ln2_weight, at.ln2_bias, act.mid, act.ln2_mean,
               act.ln2_rstd, grads, residual);
  WeightGradient(LinearShape{n_, c_, m_}, 1, dfc, work_.narrow,
                 grads + at.fc_weight, grads + at.fc_bias);
}

void CudaModel::BackwardAttention(const float* weights, const BlockOffsets& at,
                                  const BlockActivations<float>& act,
                                  float* grads, float* residual) {
  float* dqkv = work_.wide;
  WeightGradient(LinearShape{n_, c_, c_}, 1, residual, act.attention,
                 grads + at.proj_weight, grads + at.proj_bias);
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, c_, c_}, 1,
                            residual, weights + at.proj_weight, work_.narrow);
  cuda::AttentionBackward(stream_, HeadsOf(spec_), act.qkv, act.attention,
                          act.lse, work_.narrow, dqkv, work_.sums);
  cuda::LinearBackwardInput(stream_, gemm_, LinearShape{n_, c_, 3 * c_}, 1,
                            dqkv, weights + at.qkv_weight, work_.narrow);
  NormBackward(weights, at.ln1_weight, at.ln1_bias, act.x, act.ln1_mean,
               act.ln1_rstd, grads, residual);
  WeightGradient(LinearShape{n_, c_, 3 * c_}, 1, dqkv, work_.narrow,
                 grads + at.qkv_weight, At(grads, at.qkv_bias));
}

}  // namespace gimbal::worker

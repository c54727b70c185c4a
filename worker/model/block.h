// A pre-LN transformer block:
//   mid = x + attn.proj(attention(ln1(x)))
//   y   = mid + mlp.proj(activation(mlp.fc(ln2(mid))))
//
// Per token a block keeps 10 C + 4 + heads numbers (mlp_hidden = 4C): the two
// residual streams, q, k, v, the attention's output, the MLP's input to the
// activation and the norms' statistics. Norm outputs and the activation's
// output are made again in backward, inside passes that are needed anyway.
//
// Parameter gradients are added to; the gradient of the residual stream is
// updated in place, from dy to dx.
#pragma once

#include <cstdint>

#include "worker/compute/aligned_buffer.h"
#include "worker/model/model_spec.h"
#include "worker/model/parameter_table.h"
#include "worker/model/scratch.h"

namespace gimbal::worker {

// What backward needs of one microbatch's forward. Statistics may be of a wider
// type than the rest.
template <typename T, typename Statistic = T>
struct BlockActivations {
  T* x = nullptr;  // [N, C], filled by whoever comes before the block
  Statistic* ln1_mean = nullptr;  // [N]
  Statistic* ln1_rstd = nullptr;  // [N]
  T* qkv = nullptr;               // [N, 3C]
  Statistic* lse = nullptr;       // [N, heads]
  T* attention = nullptr;         // [N, C]
  T* mid = nullptr;               // [N, C]
  Statistic* ln2_mean = nullptr;  // [N]
  Statistic* ln2_rstd = nullptr;  // [N]
  T* fc = nullptr;  // [N, mlp_hidden]; backward leaves the activation

  static BlockActivations Take(const StageSpec& spec,
                               compute::Carver<Statistic>& carver) {
    const int64_t n = Rows(spec);
    const int64_t c = spec.model.hidden;
    BlockActivations act;
    act.x = carver.template Take<T>(n * c);
    act.ln1_mean = carver.Take(n);
    act.ln1_rstd = carver.Take(n);
    act.qkv = carver.template Take<T>(n * 3 * c);
    act.lse = carver.Take(n * spec.model.heads);
    act.attention = carver.template Take<T>(n * c);
    act.mid = carver.template Take<T>(n * c);
    act.ln2_mean = carver.Take(n);
    act.ln2_rstd = carver.Take(n);
    act.fc = carver.template Take<T>(n * spec.model.mlp_hidden);
    return act;
  }
};

template <typename T>
class Block {
 public:
  // `index` counts from the first block of the model.
  Block(const StageSpec& spec, const ParameterTable& table, int index);

  // Writes y [N, C].
  void Forward(const T* weights, const BlockActivations<T>& act,
               const Scratch<T>& scratch, T* y) const;
  // Uses up the activations.
  void Backward(const T* weights, const BlockActivations<T>& act,
                const Scratch<T>& scratch, T* grads, T* residual) const;

 private:
  void BackwardMlp(const T* weights, const BlockActivations<T>& act,
                   const Scratch<T>& scratch, T* grads, T* residual) const;
  void BackwardAttention(const T* weights, const BlockActivations<T>& act,
                         const Scratch<T>& scratch, T* grads,
                         T* residual) const;

  StageSpec spec_;
  // Offsets in an arena.
  int64_t ln1_weight_, ln1_bias_;
  int64_t qkv_weight_, qkv_bias_;  // bias: kAbsent without qkv_bias
  int64_t proj_weight_, proj_bias_;
  int64_t ln2_weight_, ln2_bias_;
  int64_t fc_weight_, fc_bias_;
  int64_t mlp_proj_weight_, mlp_proj_bias_;
};

}  // namespace gimbal::worker

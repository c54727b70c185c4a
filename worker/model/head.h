// The end of the model: final norm, LM head and loss.
//   logits = ln_f(x) lm_head.weight^T + lm_head.bias
//   loss   = mean cross-entropy (natural log) over the N targets
//
// Parameter gradients are added to.
#pragma once

#include <cstdint>

#include "worker/compute/aligned_buffer.h"
#include "worker/model/model_spec.h"
#include "worker/model/parameter_table.h"
#include "worker/model/scratch.h"

namespace gimbal::worker {

// What backward needs of one microbatch's forward. Statistics may be of a wider
// type than the logits.
template <typename T, typename Statistic = T>
struct HeadActivations {
  Statistic* mean = nullptr;  // [N]
  Statistic* rstd = nullptr;  // [N]
  Statistic* lse = nullptr;   // [N], log-sum-exp of the logits
  T* logits = nullptr;        // [N, V]; backward turns them into their gradient

  static HeadActivations Take(const StageSpec& spec,
                              compute::Carver<Statistic>& carver) {
    const int64_t n = Rows(spec);
    HeadActivations act;
    act.mean = carver.Take(n);
    act.rstd = carver.Take(n);
    act.lse = carver.Take(n);
    act.logits = carver.template Take<T>(n * spec.model.vocab);
    return act;
  }
};

template <typename T>
class Head {
 public:
  Head(const StageSpec& spec, const ParameterTable& table);

  // Returns the loss.
  double Forward(const T* weights, const T* x, const int32_t* targets,
                 const HeadActivations<T>& act,
                 const Scratch<T>& scratch) const;
  // Writes dx [N, C], the gradient of loss_scale * loss.
  void Backward(const T* weights, const T* x, const int32_t* targets,
                double loss_scale, const HeadActivations<T>& act,
                const Scratch<T>& scratch, T* grads, T* dx) const;

 private:
  StageSpec spec_;
  // Offsets in an arena.
  int64_t norm_weight_, norm_bias_;
  int64_t head_weight_, head_bias_;  // bias: only with head_bias
};

}  // namespace gimbal::worker

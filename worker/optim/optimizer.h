// One stage's optimizer: turns weights and a gradient into the next version of
// the weights. AdamW, or basis rotation on the matrices with AdamW on the rest.
//
//   auto optimizer = MakeOptimizer<float>(spec, table);
//   optimizer->Step({.update = t, .lr = lr, .refresh = true, .scale = s},
//                   old_weights, grads, new_weights);
//
// `old_weights` and `new_weights` may be the same arena (one version) or two
// (the stash keeps the old one): writing into the next slot is what makes a
// weight version without a copy.
// Not thread-safe. Step allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/parameter_table.h"

namespace gimbal::worker {

enum class OptimizerKind { kAdamW, kBasisRotation };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

struct StepContext {
  int64_t update = 0;  // t, 1-based
  double lr = 0;
  bool refresh = false;  // refresh every basis (t = 1 is a cold start anyway)
  double scale = 1;      // factor on the gradient (clipping)
};

// A tensor of the optimizer's state, for checkpoints; `data` stays valid and in
// place as long as the optimizer lives.
template <typename T>
struct StateTensor {
  std::string name;  // parameter's name + ".m", ".v", ".L", ".U", ...
  int layer = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  T* data = nullptr;
};

template <typename T>
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void Step(const StepContext& context, const T* old_weights,
                    const T* grads, T* new_weights) = 0;
  // Every tensor that the next Step depends on, in a fixed order. Writing saved
  // values into them restores the optimizer exactly.
  virtual std::vector<StateTensor<T>> State() = 0;
  // Bytes held, scratch included: OptimizerBytes of the same table.
  virtual int64_t state_bytes() const = 0;
};

// `table` must outlive the optimizer.
template <typename T>
std::unique_ptr<Optimizer<T>> MakeOptimizer(const OptimizerSpec& spec,
                                            const ParameterTable& table);

// Bytes MakeOptimizer<float> would hold for the table, scratch included,
// without making it (`gimbal plan`).
int64_t OptimizerBytes(const OptimizerSpec& spec, const ParameterTable& table);

// Bytes of the tensors in State() alone: what a checkpoint copies.
int64_t OptimizerStateBytes(const OptimizerSpec& spec,
                            const ParameterTable& table);

// Sum of squares of a gradient, one number per layer file of the table, by
// increasing layer, added up in double precision in a fixed order. Summed over
// layers from the last to the first it gives the same total however the model
// is split.
template <typename T>
std::vector<double> LayerSquareSums(const ParameterTable& table,
                                    const T* grads);

// Factor that brings a gradient of this norm down to `limit` (torch's
// clip_grad_norm_: limit / (norm + 1e-6), at most 1); 1 when limit is 0.
double ClipScale(double square_sum, double limit);

}  // namespace gimbal::worker

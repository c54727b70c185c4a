// How one parameter is updated. An Optimizer is a rule per parameter; they
// share one scratch memory, since one runs after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/model/parameter_table.h"

namespace gimbal::worker {

// DC-ASGD (Zheng et al., ICML 2017): g + lambda g^2 (w_now - w_then).
template <typename T>
struct DelayCompensation {
  double lambda = 0;
  bool adaptive = false;    // lambda over the root of the second moment
  const T* then = nullptr;  // weights that the gradient belongs to (an arena)
};

template <typename T>
struct StepContext {
  int64_t update = 0;  // t, 1-based
  double lr = 0;
  double matrix_lr_factor = 1;  // on the lr of ParamGroup::kMatrix
  bool refresh = false;  // refresh every basis (t = 1 is a cold start anyway)
  double scale = 1;      // factor on the gradient (clipping)
  // Applied to rotated matrices only, in the rotated space; null: none.
  const DelayCompensation<T>* compensation = nullptr;
};

// Weights as they will be lrs.size() updates ahead if the moments only decay.
struct PredictContext {
  int64_t update = 0;           // of the last Step
  std::span<const double> lrs;  // of the updates update + 1, ...
  double matrix_lr_factor = 1;
};

// Measured at a refresh.
struct BasisHealth {
  // ||offdiag(Q^T A Q)||_F / ||A||_F of the basis that was replaced, with A
  // what the new one comes from: how far the statistics had moved away from it,
  // 0 is aligned. For source `first`, `bilateral`: of U^T M V.
  double offdiagonal_ratio = 0;
  // ||Q^T Q - I||_F / sqrt(n) of the new one, estimated with a probe vector.
  double orthogonality_error = 0;
};

// Time that a rule has spent on its bases, since it was made.
struct BasisSeconds {
  double rotate = 0;   // gradients into the bases and back, their statistics
  double refresh = 0;  // new bases, moments carried into them
};

// A tensor of the optimizer's state, for checkpoints; the memory stays valid
// and in place as long as the optimizer lives.
template <typename T>
struct StateTensor {
  std::string name;  // parameter's name + ".m", ".v", ".L", ".U", ...
  int layer = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  T* data = nullptr;
  // Instead of `data`: fp16 bits of a basis stored in half precision.
  uint16_t* half = nullptr;
  // Only a stage with a delay has it.
  bool of_delay = false;

  int64_t size() const { return rows * cols; }
  // Copies size() elements out, or back in; both are exact.
  void Save(T* out) const;
  void Load(const T* in) const;
};

template <typename T>
struct OptimizerScratch {
  std::span<T> values;
  std::span<int> ints;
};

struct ScratchSize {
  int64_t values = 0;
  int64_t ints = 0;
};

template <typename T>
class ParameterRule {
 public:
  virtual ~ParameterRule() = default;
  // `old_weights` and `new_weights` may be the same memory.
  virtual void Step(const StepContext<T>& context, const T* old_weights,
                    const T* grads, T* new_weights,
                    const OptimizerScratch<T>& scratch) = 0;
  // `weights` and `predicted` are disjoint.
  virtual void Predict(const PredictContext& context, const T* weights,
                       T* predicted, const OptimizerScratch<T>& scratch) = 0;
  virtual std::vector<StateTensor<T>> State() const = 0;
  virtual ScratchSize scratch_size() const = 0;
  // What the last refresh measured; nothing for a rule without a basis.
  virtual std::optional<BasisHealth> health() const { return std::nullopt; }
  virtual BasisSeconds basis_seconds() const { return {}; }
};

}  // namespace gimbal::worker

// One stage's optimizer: turns weights and a gradient into the next version of
// the weights. AdamW or SGD on everything, or basis rotation or Muon on the
// matrices with AdamW on the rest.
//
//   Optimizer<float> optimizer(spec, table);
//   optimizer.Step({.update = t, .lr = lr, .refresh = true, .scale = s},
//                  old_weights, grads, new_weights);
//
// `old_weights` and `new_weights` may be the same arena (one version) or two
// (the stash keeps the old one): writing into the next slot is what makes a
// weight version without a copy.
// Not thread-safe. Step allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/model/parameter_table.h"
#include "worker/optim/parameter_rule.h"

namespace gimbal::worker {

enum class OptimizerKind { kAdamW, kBasisRotation, kMuon, kSgd };

// Statistics behind a basis: the second moments of the gradient (L and R), or
// its first moment (M).
enum class RotationSource { kSecond, kFirst };
// Both sides of a matrix, or the smaller one (the columns of a square matrix).
enum class RotationGeometry { kBilateral, kUnilateral };
// What a refresh does to the second moment S: permute it with the basis vectors
// (the paper), or carry it into the new basis as a variance.
enum class MomentTransport { kPermute, kRotate };

struct RotationSpec {
  RotationSource source = RotationSource::kSecond;
  RotationGeometry geometry = RotationGeometry::kBilateral;
  int64_t max_dim = 0;      // a larger side is not rotated; 0: no limit
  bool embeddings = false;  // rotate embeddings too, on their hidden side
  MomentTransport transport = MomentTransport::kPermute;
  bool half_basis = false;  // store bases in fp16
  // A basis whose orthogonality error passes it is orthonormalised once more.
  double max_orthogonality_error = 1e-2;
};

struct MuonSpec {
  double momentum = 0.95;
  int iterations = 5;  // Newton-Schulz
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // Look ahead along the momentum: NAdam's form for AdamW and rotation, the
  // usual one for SGD and Muon.
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  int64_t moment_reset =
      0;  // clear the moments every so many updates; 0: never
  // A device keeps the state in memory of the host; changes no number.
  bool offload = false;
  RotationSpec rotation;
  MuonSpec muon;
};

template <typename T>
class Optimizer {
 public:
  // `table` must outlive the optimizer.
  Optimizer(const OptimizerSpec& spec, const ParameterTable& table);
  ~Optimizer();

  // grads: an arena. Allocates nothing.
  void Step(const StepContext<T>& context, const T* old_weights, const T* grads,
            T* new_weights);
  // Right after a Step: the weights context.lrs.size() updates ahead, by the
  // optimizer's own direction with decaying momentum and no weight decay.
  // `weights` and `predicted` are disjoint.
  void Predict(const PredictContext& context, const T* weights, T* predicted);

  // Every tensor that the next Step depends on, in a fixed order. Writing saved
  // values into them restores the optimizer exactly.
  std::vector<StateTensor<T>> State() const;
  struct Bytes {
    int64_t held = 0;   // scratch included
    int64_t state = 0;  // of the tensors in State(): what a checkpoint copies
  };
  // What an optimizer for this table holds, without making it (`gimbal plan`).
  static Bytes Count(const OptimizerSpec& spec, const ParameterTable& table);
  Bytes bytes() const;
  // The worst of the bases, as of the last refresh; nothing without bases.
  std::optional<BasisHealth> basis_health() const;
  // Of all bases.
  BasisSeconds basis_seconds() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

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

// Basis rotation (arXiv 2602.03515) on one matrix W [m, n] with gradient G,
// bases U and V (columns), at update t:
//   source second:  L <- b2 L + (1-b2) G G^T,  R <- b2 R + (1-b2) G^T G
//   M <- b1 M + (1-b1) G
//   on a refresh: new U and V (basis.h), from L and R, or from M; S moves along
//   S <- b2 S + (1-b2) (U^T G V)^2
//   W <- W (1 - lr wd)
//        - lr sqrt(1-b2^t) / (1-b1^t) U [U^T M V / (sqrt(S) + eps)] V^T
// or its Nesterov form (adam_rule.h). M is kept as U^T M V, which is the same
// number by linearity and spares one of three two-sided products; a refresh
// carries it over.
//
// A side that is not rotated (geometry unilateral, max_dim) has the identity as
// its basis, and costs and holds nothing. With source `first` and one rotated
// side the power step is one on M M^T (or M^T M).
//
// State: .m and .v [m, n], both in the rotated space; .L [m, m] and .R [n, n],
// lower triangles (source second); .U [m, m] and .V [n, n], whose rows are the
// basis vectors, in fp16 when the spec says so; .health [1, 2]. Before the cold
// start at t = 1 the bases are the identity.
//
// FLOP per update with both sides: 4 m n (m+n) for two two-sided products, and
// m n (m+n) for L and R. A refresh adds 4 m n (m+n) for M and 14/3 (m^3 + n^3)
// for the bases. A side that is not rotated takes its own terms away.
#pragma once

#include <optional>
#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/parameter_rule.h"

namespace gimbal::worker {

struct RotatedSides {
  bool left = false;
  bool right = false;
  bool any() const { return left || right; }
};
// Which sides of a parameter the spec rotates.
RotatedSides SidesToRotate(const RotationSpec& spec, const Param& param);

template <typename T>
class BasisRotation : public ParameterRule<T> {
 public:
  // As AdamW's. Requires SidesToRotate(...).any().
  BasisRotation(const Param& param, AdamRule& rule, compute::Carver<T>& memory);

  void Step(const StepContext<T>& context, const T* old_weights, const T* grads,
            T* new_weights, const OptimizerScratch<T>& scratch) override;
  void Predict(const PredictContext& context, const T* weights, T* predicted,
               const OptimizerScratch<T>& scratch) override;
  std::vector<StateTensor<T>> State() const override;
  ScratchSize scratch_size() const override;
  std::optional<BasisHealth> health() const override;
  BasisSeconds basis_seconds() const override { return seconds_; }

 private:
  struct Side {
    int64_t n = 0;
    bool rotated = false;
    T* covariance = nullptr;  // source second
    T* stored = nullptr;      // the basis, or
    uint16_t* half = nullptr;
    T* basis = nullptr;  // ready for use: `stored`, or unpacked into scratch
  };
  // Cuts `scratch` into what a step needs; sets the sides' `basis`.
  struct Work {
    T* product = nullptr;    // [m, n], one half of a two-sided product
    T* direction = nullptr;  // [m, n]
    std::span<T> rest;       // of a refresh, or a third [m, n]
    std::span<int> ints;
  };
  Work Unpack(const OptimizerScratch<T>& scratch);
  void Pack(Side& side);

  const RotationSpec& rotation() const { return rule_.spec().rotation; }
  bool FromMoment() const {
    return rotation().source == RotationSource::kFirst;
  }
  int64_t RefreshScratch() const;
  void UpdateCovariances(double scale, const T* grads);
  // New bases, with the moments carried into them.
  void Refresh(bool cold, const Work& work);
  void RefreshBases(bool cold, std::span<T> scratch, std::span<int> order,
                    std::span<int> ints);
  double RefreshSide(bool cold, Side& side, std::span<T> scratch,
                     std::span<int> order, std::span<int> ints);
  void CheckOrthogonality(Side& side, std::span<T> scratch);
  double MomentOffdiagonalRatio() const;
  void PermuteSecondMoment(std::span<const int> order, T* copy);
  void RotateSecondMoment(const T* old_left, const T* old_right, T* product,
                          std::span<T> scratch);
  void Compensate(const StepContext<T>& context, const T* now,
                  const Work& work);

  // out = alpha U^T in V and out = U in V^T, through work.product. `in` may be
  // `out`.
  void ToRotated(T alpha, const T* in, T* out, T* product) const;
  void ToOriginal(const T* in, T* out, T* product) const;

  const Param& param_;
  AdamRule& rule_;
  T* m_;
  T* v_;
  // [1, 2]: BasisHealth of the last refresh. State, because what a coordinator
  // decides by it must not depend on restarts.
  T* health_;
  Side left_, right_;
  BasisSeconds seconds_;
};

}  // namespace gimbal::worker

// Basis rotation (arXiv 2602.03515, source `second`, geometry `bilateral`) on
// the matrices of a stage, AdamW on everything else.
//
// For a matrix W [m, n] with gradient G, bases U and V (columns), at update t:
//   L <- b2 L + (1-b2) G G^T,  R <- b2 R + (1-b2) G^T G
//   on a refresh: new U from L, new V from R (basis.h); S permuted along
//   M <- b1 M + (1-b1) G,  S <- b2 S + (1-b2) (U^T G V)^2
//   W <- W (1 - lr wd)
//        - lr sqrt(1-b2^t) / (1-b1^t) U [U^T M V / (sqrt(S) + eps)] V^T
// M is kept as U^T M V, which is the same number by linearity and spares one of
// three two-sided products; a refresh carries it over.
//
// State of a matrix: .m and .v [m, n], both in the rotated space; .L [m, m] and
// .R [n, n], lower triangles; .U [m, m] and .V [n, n], whose rows are the basis
// vectors. Before the cold start at t = 1 the bases are the identity.
//
// FLOP of a matrix per update: 5 m n (m+n), of which m n (m+n) for L and R and
// 4 m n (m+n) for two two-sided products. A refresh adds 4 m n (m+n) for M and
// 14/3 (m^3 + n^3) for the bases.
//
// Memory beyond the moments: 2 (m^2 + n^2) elements per matrix, plus scratch
// for the largest matrix of the stage.
#pragma once

#include <vector>

#include "worker/optim/optimizer.h"

namespace gimbal::worker {

template <typename T>
class BasisRotation : public Optimizer<T> {
 public:
  BasisRotation(const OptimizerSpec& spec, const ParameterTable& table);

  void Step(const StepContext& context, const T* old_weights, const T* grads,
            T* new_weights) override;
  std::vector<StateTensor<T>> State() override;
  int64_t state_bytes() const override;

  // What state_bytes() of an optimizer for this table is.
  static int64_t Bytes(const ParameterTable& table);

 private:
  // The state of one rotated matrix, pointers into the arenas below.
  struct Matrix {
    const Param* param;
    T *m, *v;
    T *left_covariance, *right_covariance;
    T *left_basis, *right_basis;
  };
  // Elements of each block of memory.
  struct Sizes {
    int64_t moments = 0;
    int64_t sides = 0;  // covariances and bases of all matrices
    int64_t largest_side = 0;
    int64_t scratch = 0;
    int64_t int_scratch = 0;

    explicit Sizes(const ParameterTable& table);
    int64_t bytes() const;
  };

  void StepMatrix(const StepContext& context, const Matrix& x,
                  const T* old_weights, const T* grad, T* new_weights);
  void UpdateCovariances(double scale, const Matrix& x, const T* grad);
  void ColdStart(const Matrix& x);
  void Refresh(const Matrix& x);
  void PermuteSecondMoment(const Matrix& x);
  // out = alpha U^T in V and out = U in V^T, through scratch. `in` may be
  // `out`.
  void ToRotated(const Matrix& x, T alpha, const T* in, T* out);
  void ToOriginal(const Matrix& x, const T* in, T* out);

  const OptimizerSpec spec_;
  const ParameterTable& table_;
  const Sizes sizes_;
  std::vector<T> m_;  // both laid out as an arena of the table
  std::vector<T> v_;
  std::vector<T> sides_;
  std::vector<Matrix> matrices_;
  std::vector<T> scratch_;  // products of a step, or LAPACK's work
  std::vector<int> int_scratch_;
  std::vector<int> left_order_, right_order_;
};

}  // namespace gimbal::worker

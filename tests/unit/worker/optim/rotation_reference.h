// Basis rotation written down a second time, as plainly as the paper states it:
// double precision, explicit loops, U and V as columns, the first moment in the
// original space, Jacobi rotations and Gram-Schmidt in place of LAPACK.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/optim/optimizer.h"

namespace gimbal::worker {

struct PlainMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> data;

  PlainMatrix() = default;
  PlainMatrix(int64_t rows, int64_t cols)
      : rows(rows), cols(cols), data(rows * cols) {}
  double& operator()(int64_t i, int64_t j) { return data[i * cols + j]; }
  double operator()(int64_t i, int64_t j) const { return data[i * cols + j]; }
};

PlainMatrix Transposed(const PlainMatrix& a);
PlainMatrix Product(const PlainMatrix& a, const PlainMatrix& b);
// Eigenvectors of a symmetric matrix as columns, by decreasing eigenvalue.
PlainMatrix Eigenvectors(PlainMatrix a);
// Orthonormal columns by Gram-Schmidt. Requires full rank.
PlainMatrix Orthonormalized(PlainMatrix a);

class RotationReference {
 public:
  // Source `first` on both sides needs a square weight.
  RotationReference(const OptimizerSpec& spec, bool left, bool right,
                    PlainMatrix weight);

  // Cold start at update 1, power step when `refresh`.
  void Step(const StepContext<double>& context, const PlainMatrix& gradient);

  PlainMatrix weight;
  // May be replaced between updates: in a degenerate eigenspace any basis is as
  // good as another.
  PlainMatrix left_basis, right_basis;

 private:
  void ColdStart(const PlainMatrix& left_square,
                 const PlainMatrix& right_square);
  void Refresh(const PlainMatrix& left_square, const PlainMatrix& right_square);
  void RefreshSide(const PlainMatrix& covariance, bool left);
  void RefreshFromMoment();
  void Permute(const std::vector<int64_t>& order, bool left);
  double Mu(int64_t t) const;

  OptimizerSpec spec_;
  bool left_, right_;  // rotated sides
  PlainMatrix left_covariance_, right_covariance_;
  PlainMatrix m_;  // original space
  PlainMatrix s_;  // rotated space
};

}  // namespace gimbal::worker

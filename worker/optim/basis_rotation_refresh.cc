// The refresh of BasisRotation: new bases, and the moments carried into them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "worker/compute/gemm.h"
#include "worker/optim/basis.h"
#include "worker/optim/basis_rotation.h"
#include "worker/optim/lapack.h"
#include "worker/optim/qr.h"

namespace gimbal::worker {

using compute::Trans;

template <typename T>
void BasisRotation<T>::Refresh(bool cold, const Work& work) {
  const std::span<int> order =
      work.ints.first(static_cast<size_t>(left_.n + right_.n));
  std::iota(order.begin(), order.begin() + left_.n, 0);
  std::iota(order.begin() + left_.n, order.end(), 0);
  const std::span<int> ints = work.ints.subspan(order.size());
  std::span<T> scratch = work.rest;
  T *old_left = nullptr, *old_right = nullptr;
  const bool rotates = rotation().transport == MomentTransport::kRotate;
  if (rotates) {
    compute::Carver<T> carver(scratch.data());
    if (left_.rotated) old_left = carver.Take(left_.n * left_.n);
    if (right_.rotated) old_right = carver.Take(right_.n * right_.n);
    scratch = scratch.subspan(static_cast<size_t>(carver.used()));
    if (left_.rotated) std::copy_n(left_.basis, left_.n * left_.n, old_left);
    if (right_.rotated) {
      std::copy_n(right_.basis, right_.n * right_.n, old_right);
    }
  }
  health_[0] = health_[1] = 0;
  if (FromMoment() && left_.rotated && right_.rotated && !cold) {
    health_[0] = static_cast<T>(MomentOffdiagonalRatio());
  }
  ToOriginal(m_, m_, work.product);
  RefreshBases(cold, scratch, order, ints);
  for (Side* side : {&left_, &right_}) {
    if (side->rotated) CheckOrthogonality(*side, scratch);
  }
  ToRotated(1, m_, m_, work.product);
  if (cold) return;  // S is zero
  if (rotates) {
    RotateSecondMoment(old_left, old_right, work.product, scratch);
  } else {
    PermuteSecondMoment(order, work.product);
  }
}

template <typename T>
void BasisRotation<T>::RefreshBases(bool cold, std::span<T> scratch,
                                    std::span<int> order, std::span<int> ints) {
  const std::span<int> left_order = order.first(static_cast<size_t>(left_.n));
  const std::span<int> right_order =
      order.subspan(static_cast<size_t>(left_.n));
  if (FromMoment() && left_.rotated && right_.rotated) {
    if (cold) {
      ColdStartPair(left_.n, right_.n, m_, left_.basis, right_.basis, scratch,
                    ints);
    } else {
      RefreshPair(left_.n, right_.n, m_, left_.basis, right_.basis, scratch,
                  left_order, right_order);
    }
    return;
  }
  for (Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    const double ratio = RefreshSide(
        cold, *side, scratch, side == &left_ ? left_order : right_order, ints);
    health_[0] = std::max(health_[0], static_cast<T>(ratio));
  }
}

template <typename T>
double BasisRotation<T>::RefreshSide(bool cold, Side& side,
                                     std::span<T> scratch, std::span<int> order,
                                     std::span<int> ints) {
  const T* statistic = side.covariance;
  if (FromMoment()) {
    T* square = scratch.data();
    if (&side == &left_) {
      SyrkRows<T>(left_.n, right_.n, 1, m_, 0, square);
    } else {
      SyrkColumns<T>(right_.n, left_.n, 1, m_, 0, square);
    }
    statistic = square;
    scratch = scratch.subspan(
        static_cast<size_t>(compute::AlignedSize<T>(side.n * side.n)));
  }
  if (cold) {
    ColdStartBasis(side.n, statistic, side.basis, scratch, ints);
    return 0;
  }
  return RefreshBasis(side.n, statistic, side.basis, scratch, order);
}

template <typename T>
void BasisRotation<T>::CheckOrthogonality(Side& side, std::span<T> scratch) {
  double error = OrthogonalityError(side.n, side.basis, scratch);
  if (error > rotation().max_orthogonality_error) {
    OrthonormalizeRows(side.n, side.n, side.basis, scratch);
    error = OrthogonalityError(side.n, side.basis, scratch);
  }
  Pack(side);
  if (side.half != nullptr) {
    error = OrthogonalityError(side.n, side.basis, scratch);
  }
  health_[1] = std::max(health_[1], static_cast<T>(error));
}

template <typename T>
double BasisRotation<T>::MomentOffdiagonalRatio() const {
  double all = 0, diagonal = 0;
  for (int64_t i = 0; i < left_.n; ++i) {
    for (int64_t j = 0; j < right_.n; ++j) {
      const double x = m_[i * right_.n + j];
      all += x * x;
      if (i == j) diagonal += x * x;
    }
  }
  return all > 0 && std::isfinite(all)
             ? std::sqrt(std::max(0.0, all - diagonal) / all)
             : 0;
}

template <typename T>
void BasisRotation<T>::PermuteSecondMoment(std::span<const int> order,
                                           T* copy) {
  const int* of_row = order.data();
  const int* of_col = of_row + left_.n;
  std::copy_n(v_, param_.size(), copy);
  for (int64_t i = 0; i < left_.n; ++i) {
    const T* source = copy + int64_t{of_row[i]} * right_.n;
    for (int64_t j = 0; j < right_.n; ++j) {
      v_[i * right_.n + j] = source[of_col[j]];
    }
  }
}

// With X the relative rotation of the left side and Y that of the right one
// (rows: new vectors in the old basis), entries of the gradient taken as
// uncorrelated: S <- X^2 S (Y^2)^T, squares entry by entry.
template <typename T>
void BasisRotation<T>::RotateSecondMoment(const T* old_left, const T* old_right,
                                          T* product, std::span<T> scratch) {
  compute::Carver<T> carver(scratch.data());
  const auto relative = [&carver](const Side& side, const T* old) {
    T* x = carver.Take(side.n * side.n);
    compute::Gemm<T>(Trans::kNo, Trans::kYes, side.n, side.n, side.n, 1,
                     side.basis, side.n, old, side.n, 0, x, side.n);
    for (int64_t i = 0; i < side.n * side.n; ++i) x[i] *= x[i];
    return x;
  };
  const auto [m, n] = std::pair(left_.n, right_.n);
  if (right_.rotated) {
    const T* y = relative(right_, old_right);
    compute::Gemm<T>(Trans::kNo, Trans::kYes, m, n, n, 1, v_, n, y, n, 0,
                     product, n);
    std::copy_n(product, m * n, v_);
  }
  if (left_.rotated) {
    const T* x = relative(left_, old_left);
    compute::Gemm<T>(Trans::kNo, Trans::kNo, m, n, m, 1, x, m, v_, n, 0,
                     product, n);
    std::copy_n(product, m * n, v_);
  }
}

// The bases' rows are the columns of U and V: nothing is stored transposed.

template class BasisRotation<float>;
template class BasisRotation<double>;

}  // namespace gimbal::worker

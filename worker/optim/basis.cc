#include "worker/optim/basis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/random.h"
#include "worker/compute/gemm.h"
#include "worker/optim/lapack.h"
#include "worker/optim/qr.h"

namespace gimbal::worker {
namespace {

// A gradient entry that is not finite leaves its mark on the diagonal.
template <typename T>
bool IsFinite(int64_t n, const T* covariance) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(covariance[i * n + i])) return false;
  }
  return true;
}

template <typename T>
bool AllFinite(int64_t n, const T* x) {
  return std::all_of(x, x + n, [](T value) { return std::isfinite(value); });
}

// Sorts by decreasing key, ties by index, so that the order is a function of
// the numbers alone.
template <typename T>
void SortDescending(const T* keys, std::span<int> order) {
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [keys](int a, int b) {
    return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
  });
}

template <typename T>
void SetIdentity(int64_t n, T* a) {
  std::fill_n(a, n * n, T{0});
  for (int64_t i = 0; i < n; ++i) a[i * n + i] = 1;
}

// Of a symmetric matrix from its lower triangle.
template <typename T>
double SquaredNorm(int64_t n, const T* a) {
  double off = 0, diagonal = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const double x = a[i * n + j];
      off += x * x;
    }
    const double x = a[i * n + i];
    diagonal += x * x;
  }
  return diagonal + 2 * off;
}

// Sorts the first `count` rows of `product` by decreasing norm into `basis` and
// makes them an orthonormal basis of n.
template <typename T>
void BasisFromRows(int64_t n, int64_t count, const T* product, T* basis,
                   std::span<T> scratch, std::span<int> order) {
  for (int64_t i = 0; i < count; ++i) {
    scratch[i] = Dot(n, product + i * n, product + i * n);
  }
  std::iota(order.begin(), order.end(), 0);
  SortDescending(scratch.data(), order.first(count));
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(product + order[i] * n, n, basis + i * n);
  }
  OrthonormalizeRows(n, count, basis, scratch);
}

}  // namespace

template <typename T>
int64_t BasisScratchSize(int64_t n) {
  return std::max({EigenScratchSize<T>(n), 3 * n,
                   n * n + std::max(n, QrScratchSize<T>(n))});
}

int64_t BasisIntScratchSize(int64_t n) { return EigenIntScratchSize(n); }

template <typename T>
void ColdStartBasis(int64_t n, const T* covariance, T* basis,
                    std::span<T> scratch, std::span<int> int_scratch) {
  if (!IsFinite(n, covariance)) return;
  std::copy_n(covariance, n * n, basis);
  if (!EigenvectorRows(n, basis, scratch, int_scratch)) {
    SetIdentity(n, basis);
    return;
  }
  for (int64_t i = 0; i < n / 2; ++i) {
    std::swap_ranges(basis + i * n, basis + (i + 1) * n,
                     basis + (n - 1 - i) * n);
  }
}

template <typename T>
double RefreshBasis(int64_t n, const T* covariance, T* basis,
                    std::span<T> scratch, std::span<int> order) {
  std::iota(order.begin(), order.end(), 0);
  if (!IsFinite(n, covariance)) return 0;
  T* product = scratch.data();
  const std::span<T> rest = scratch.subspan(n * n);
  SymmRight(n, basis, covariance, product);  // rows: A q_i
  double diagonal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T e = Dot(n, basis + i * n, product + i * n);
    diagonal += static_cast<double>(e) * e;
    rest[i] = std::isfinite(e) ? e : std::numeric_limits<T>::lowest();
  }
  SortDescending(rest.data(), order);
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(product + order[i] * n, n, basis + i * n);
  }
  OrthonormalizeRows(n, n, basis, rest);
  const double norm = SquaredNorm(n, covariance);
  const double off = std::max(0.0, norm - diagonal);
  return norm > 0 && std::isfinite(norm) ? std::sqrt(off / norm) : 0;
}

template <typename T>
double OrthogonalityError(int64_t n, const T* basis, std::span<T> scratch) {
  constexpr uint64_t kSeed = 0x6f7274686fULL;
  T* x = scratch.data();
  T* y = x + n;  // Q^T x: rows of `basis` are the vectors
  T* z = y + n;  // Q Q^T x
  for (int64_t i = 0; i < n; ++i) {
    x[i] = base::RandomBits(kSeed, 0, static_cast<uint64_t>(i)) & 1 ? 1 : -1;
  }
  TimesVector(false, n, basis, x, y);
  TimesVector(true, n, basis, y, z);
  double error = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double e = static_cast<double>(z[i]) - x[i];
    error += e * e;
  }
  return std::sqrt(error / static_cast<double>(n));
}

template <typename T>
int64_t PairScratchSize(int64_t rows, int64_t cols) {
  const int64_t larger = std::max(rows, cols);
  const int64_t cold = rows * cols + SvdScratchSize<T>(rows, cols);
  const int64_t warm =
      2 * rows * cols + std::max(larger, QrScratchSize<T>(larger));
  return std::max(cold, warm);
}

int64_t PairIntScratchSize(int64_t rows, int64_t cols) {
  return SvdIntScratchSize(rows, cols);
}

template <typename T>
void ColdStartPair(int64_t rows, int64_t cols, const T* moment, T* left,
                   T* right, std::span<T> scratch, std::span<int> int_scratch) {
  if (!AllFinite(rows * cols, moment)) return;
  T* copy = scratch.data();
  std::copy_n(moment, rows * cols, copy);
  if (!SingularVectorRows(rows, cols, copy, left, right,
                          scratch.subspan(rows * cols), int_scratch)) {
    SetIdentity(rows, left);
    SetIdentity(cols, right);
  }
}

template <typename T>
void RefreshPair(int64_t rows, int64_t cols, const T* moment, T* left, T* right,
                 std::span<T> scratch, std::span<int> left_order,
                 std::span<int> right_order) {
  std::iota(left_order.begin(), left_order.end(), 0);
  std::iota(right_order.begin(), right_order.end(), 0);
  if (!AllFinite(rows * cols, moment)) return;
  const int64_t k = std::min(rows, cols);
  T* of_right = scratch.data();      // rows: M v_i, [k, rows]
  T* of_left = of_right + k * rows;  // rows: M^T u_i, [k, cols]
  const std::span<T> rest = scratch.subspan(k * (rows + cols));
  using compute::Trans;
  compute::Gemm<T>(Trans::kNo, Trans::kYes, k, rows, cols, 1, right, cols,
                   moment, cols, 0, of_right, rows);
  compute::Gemm<T>(Trans::kNo, Trans::kNo, k, cols, rows, 1, left, rows, moment,
                   cols, 0, of_left, cols);
  BasisFromRows(rows, k, of_right, left, rest, right_order);
  BasisFromRows(cols, k, of_left, right, rest, left_order);
}

#define GIMBAL_INSTANTIATE(T)                                                 \
  template int64_t BasisScratchSize<T>(int64_t);                              \
  template void ColdStartBasis(int64_t, const T*, T*, std::span<T>,           \
                               std::span<int>);                               \
  template double RefreshBasis(int64_t, const T*, T*, std::span<T>,           \
                               std::span<int>);                               \
  template double OrthogonalityError(int64_t, const T*, std::span<T>);        \
  template int64_t PairScratchSize<T>(int64_t, int64_t);                      \
  template void ColdStartPair(int64_t, int64_t, const T*, T*, T*,             \
                              std::span<T>, std::span<int>);                  \
  template void RefreshPair(int64_t, int64_t, const T*, T*, T*, std::span<T>, \
                            std::span<int>, std::span<int>);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

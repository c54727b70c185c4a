#include "worker/optim/basis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "worker/optim/lapack.h"

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
T Dot(int64_t n, const T* a, const T* b) {
  return std::inner_product(a, a + n, b, T{0});
}

}  // namespace

template <typename T>
int64_t BasisScratchSize(int64_t n) {
  return std::max(EigenScratchSize<T>(n),
                  n * n + std::max(n, QrScratchSize<T>(n)));
}

int64_t BasisIntScratchSize(int64_t n) { return EigenIntScratchSize(n); }

template <typename T>
void ColdStartBasis(int64_t n, const T* covariance, T* basis,
                    std::span<T> scratch, std::span<int> int_scratch) {
  if (!IsFinite(n, covariance)) return;
  std::copy_n(covariance, n * n, basis);
  if (!EigenvectorRows(n, basis, scratch, int_scratch)) {
    std::fill_n(basis, n * n, T{0});
    for (int64_t i = 0; i < n; ++i) basis[i * n + i] = 1;
    return;
  }
  for (int64_t i = 0; i < n / 2; ++i) {
    std::swap_ranges(basis + i * n, basis + (i + 1) * n,
                     basis + (n - 1 - i) * n);
  }
}

template <typename T>
void RefreshBasis(int64_t n, const T* covariance, T* basis,
                  std::span<T> scratch, std::span<int> order) {
  std::iota(order.begin(), order.end(), 0);
  if (!IsFinite(n, covariance)) return;
  T* product = scratch.data();
  const std::span<T> rest = scratch.subspan(n * n);
  SymmRight(n, basis, covariance, product);  // rows: A q_i
  for (int64_t i = 0; i < n; ++i) {
    const T e = Dot(n, basis + i * n, product + i * n);
    rest[i] = std::isfinite(e) ? e : std::numeric_limits<T>::lowest();
  }
  SortDescending(rest.data(), order);
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(product + order[i] * n, n, basis + i * n);
  }
  OrthonormalizeRows(n, basis, rest);
}

#define GIMBAL_INSTANTIATE(T)                                       \
  template int64_t BasisScratchSize<T>(int64_t);                    \
  template void ColdStartBasis(int64_t, const T*, T*, std::span<T>, \
                               std::span<int>);                     \
  template void RefreshBasis(int64_t, const T*, T*, std::span<T>,   \
                             std::span<int>);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

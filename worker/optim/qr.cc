#include "worker/optim/qr.h"

#include <algorithm>

#include "worker/compute/gemm.h"

// Fortran symbols of LAPACK.
extern "C" {
void sgeqrt3_(const int* m, const int* n, float* a, const int* lda, float* t,
              const int* ldt, int* info);
void dgeqrt3_(const int* m, const int* n, double* a, const int* lda, double* t,
              const int* ldt, int* info);
}

namespace gimbal::worker {
namespace {

using compute::Gemm;
using compute::Trans;

constexpr auto FactorPanel(float /*type*/) { return sgeqrt3_; }
constexpr auto FactorPanel(double /*type*/) { return dgeqrt3_; }

int64_t BlockRows(int64_t n) { return n < 1024 ? 64 : 128; }

// One pass over a [n, n] in blocks of rows. What LAPACK calls columns are rows
// here, so nothing is transposed: the reflectors of block k stand in its rows
// from column k on, and H = I - V^T T V for rows V.
template <typename T>
class BlockedQr {
 public:
  BlockedQr(int64_t n, T* a, T* scratch)
      : n_(n),
        block_(BlockRows(n)),
        a_(a),
        factors_(scratch),
        reflectors_(factors_ + n * block_),
        work_(reflectors_ + n * block_),
        product_(work_ + n * block_) {}

  static int64_t ScratchSize(int64_t n) { return 4 * n * BlockRows(n); }

  void Factor(int64_t count) {
    for (int64_t k = 0; k < count; k += block_) {
      const int64_t rows = std::min(block_, count - k);
      const int m = static_cast<int>(n_ - k), c = static_cast<int>(rows);
      const int lda = static_cast<int>(n_), ldt = static_cast<int>(block_);
      int info = 0;
      FactorPanel(T{})(&m, &c, At(k, k), &lda, FactorsOf(k), &ldt, &info);
      TakeReflectors(k, rows);
      Apply(k, rows, count - k - rows, true);
    }
  }

  // Writes the product of all reflections over the factored matrix.
  void Form(int64_t count) {
    for (int64_t i = count; i < n_; ++i) SetUnitRow(i, 0);
    for (int64_t k = (count - 1) / block_ * block_; k >= 0; k -= block_) {
      const int64_t rows = std::min(block_, count - k);
      TakeReflectors(k, rows);
      for (int64_t i = k; i < k + rows; ++i) SetUnitRow(i, k);
      for (int64_t i = k + rows; i < n_; ++i) std::fill_n(At(i, k), rows, T{0});
      ApplyToUnitRows(k, rows);
      Apply(k, rows, n_ - k - rows, false);
    }
  }

 private:
  T* At(int64_t row, int64_t col) { return a_ + row * n_ + col; }
  // T of block k, transposed as it is stored: row-major [block_, block_].
  T* FactorsOf(int64_t k) { return factors_ + k * block_; }

  void SetUnitRow(int64_t row, int64_t from) {
    std::fill_n(At(row, from), n_ - from, T{0});
    *At(row, row) = 1;
  }

  // V [rows, n - k] with the ones and zeros that geqrt3 leaves out, and zeros
  // in the unused triangle of T.
  void TakeReflectors(int64_t k, int64_t rows) {
    const int64_t width = n_ - k;
    T* factors = FactorsOf(k);
    for (int64_t i = 0; i < rows; ++i) {
      T* v = reflectors_ + i * width;
      std::fill_n(v, i, T{0});
      v[i] = 1;
      std::copy_n(At(k + i, k + i + 1), width - i - 1, v + i + 1);
      std::fill_n(factors + i * block_ + i + 1, rows - i - 1, T{0});
    }
  }

  // C <- C H (or C H^T), for the `others` rows C below block k.
  void Apply(int64_t k, int64_t rows, int64_t others, bool transposed) {
    if (others <= 0) return;
    const int64_t width = n_ - k;
    T* c = At(k + rows, k);
    Gemm<T>(Trans::kNo, Trans::kYes, others, rows, width, 1, c, n_, reflectors_,
            width, 0, work_, rows);
    Gemm<T>(Trans::kNo, transposed ? Trans::kYes : Trans::kNo, others, rows,
            rows, 1, work_, rows, FactorsOf(k), block_, 0, product_, rows);
    Gemm<T>(Trans::kNo, Trans::kNo, others, width, rows, -1, product_, rows,
            reflectors_, width, 1, c, n_);
  }

  // The same for the unit rows of block k itself: E V^T is V's triangle.
  void ApplyToUnitRows(int64_t k, int64_t rows) {
    const int64_t width = n_ - k;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        work_[i * rows + j] = reflectors_[j * width + i];
      }
    }
    Gemm<T>(Trans::kNo, Trans::kNo, rows, rows, rows, 1, work_, rows,
            FactorsOf(k), block_, 0, product_, rows);
    Gemm<T>(Trans::kNo, Trans::kNo, rows, width, rows, -1, product_, rows,
            reflectors_, width, 1, At(k, k), n_);
  }

  const int64_t n_, block_;
  T* const a_;
  T *const factors_, *const reflectors_, *const work_, *const product_;
};

}  // namespace

template <typename T>
int64_t QrScratchSize(int64_t n) {
  return BlockedQr<T>::ScratchSize(n);
}

template <typename T>
void OrthonormalizeRows(int64_t n, int64_t count, T* a, std::span<T> scratch) {
  BlockedQr<T> qr(n, a, scratch.data());
  qr.Factor(count);
  qr.Form(count);
}

#define GIMBAL_INSTANTIATE(T)                 \
  template int64_t QrScratchSize<T>(int64_t); \
  template void OrthonormalizeRows(int64_t, int64_t, T*, std::span<T>);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

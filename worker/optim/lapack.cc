#include "worker/optim/lapack.h"

#include <cblas.h>

#include <algorithm>
#include <utility>

// Fortran symbols of LAPACK, with the hidden lengths of character arguments.
extern "C" {
void ssyevd_(const char* jobz, const char* uplo, const int* n, float* a,
             const int* lda, float* w, float* work, const int* lwork,
             int* iwork, const int* liwork, int* info, size_t, size_t);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a,
             const int* lda, double* w, double* work, const int* lwork,
             int* iwork, const int* liwork, int* info, size_t, size_t);
void sgesdd_(const char* jobz, const int* m, const int* n, float* a,
             const int* lda, float* s, float* u, const int* ldu, float* vt,
             const int* ldvt, float* work, const int* lwork, int* iwork,
             int* info, size_t);
void dgesdd_(const char* jobz, const int* m, const int* n, double* a,
             const int* lda, double* s, double* u, const int* ldu, double* vt,
             const int* ldvt, double* work, const int* lwork, int* iwork,
             int* info, size_t);
}

namespace gimbal::worker {
namespace {

template <typename T>
struct Routines;

template <>
struct Routines<float> {
  static constexpr auto syrk = cblas_ssyrk;
  static constexpr auto symm = cblas_ssymm;
  static constexpr auto dot = cblas_sdot;
  static constexpr auto gemv = cblas_sgemv;
  static constexpr auto syevd = ssyevd_;
  static constexpr auto gesdd = sgesdd_;
};

template <>
struct Routines<double> {
  static constexpr auto syrk = cblas_dsyrk;
  static constexpr auto symm = cblas_dsymm;
  static constexpr auto dot = cblas_ddot;
  static constexpr auto gemv = cblas_dgemv;
  static constexpr auto syevd = dsyevd_;
  static constexpr auto gesdd = dgesdd_;
};

}  // namespace

template <typename T>
void SyrkRows(int64_t n, int64_t k, T alpha, const T* a, T beta, T* c) {
  Routines<T>::syrk(CblasRowMajor, CblasLower, CblasNoTrans,
                    static_cast<int>(n), static_cast<int>(k), alpha, a,
                    static_cast<int>(k), beta, c, static_cast<int>(n));
}

template <typename T>
void SyrkColumns(int64_t n, int64_t k, T alpha, const T* a, T beta, T* c) {
  Routines<T>::syrk(CblasRowMajor, CblasLower, CblasTrans, static_cast<int>(n),
                    static_cast<int>(k), alpha, a, static_cast<int>(n), beta, c,
                    static_cast<int>(n));
}

template <typename T>
T Dot(int64_t n, const T* a, const T* b) {
  return Routines<T>::dot(static_cast<int>(n), a, 1, b, 1);
}

template <typename T>
void TimesVector(bool transposed, int64_t n, const T* a, const T* x, T* y) {
  const int side = static_cast<int>(n);
  Routines<T>::gemv(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, side,
                    side, T{1}, a, side, x, 1, T{0}, y, 1);
}

template <typename T>
void SymmRight(int64_t n, const T* x, const T* s, T* y) {
  const int side = static_cast<int>(n);
  Routines<T>::symm(CblasRowMajor, CblasRight, CblasLower, side, side, T{1}, s,
                    side, x, side, T{0}, y, side);
}

// Scratch: n eigenvalues, then LAPACK's work.
// The documented minimum of syevd with vectors.
template <typename T>
int64_t EigenScratchSize(int64_t n) {
  return n + 1 + 6 * n + 2 * n * n;
}

int64_t EigenIntScratchSize(int64_t n) { return 3 + 5 * n; }

template <typename T>
bool EigenvectorRows(int64_t n, T* a, std::span<T> scratch,
                     std::span<int> int_scratch) {
  const int side = static_cast<int>(n);
  T* eigenvalues = scratch.data();
  T* work = eigenvalues + n;
  const int work_size = static_cast<int>(EigenScratchSize<T>(n) - n);
  const int int_size = static_cast<int>(EigenIntScratchSize(n));
  int info = 0;
  // Our lower triangle is the upper one of the column-major view.
  Routines<T>::syevd("V", "U", &side, a, &side, eigenvalues, work, &work_size,
                     int_scratch.data(), &int_size, &info, 1, 1);
  return info == 0;
}

// LAPACK sees a^T: its left singular vectors are our right ones.
template <typename T>
int64_t SvdScratchSize(int64_t rows, int64_t cols) {
  const int m = static_cast<int>(cols), n = static_cast<int>(rows), query = -1;
  int info = 0;
  T size = 0;
  Routines<T>::gesdd("A", &m, &n, nullptr, &m, nullptr, nullptr, &m, nullptr,
                     &n, &size, &query, nullptr, &info, 1);
  // LAPACK tells the size as a T, which may have rounded it down.
  return std::min(rows, cols) + static_cast<int64_t>(size * T{1.0001}) + 1;
}

int64_t SvdIntScratchSize(int64_t rows, int64_t cols) {
  return 8 * std::min(rows, cols);
}

template <typename T>
bool SingularVectorRows(int64_t rows, int64_t cols, T* a, T* left, T* right,
                        std::span<T> scratch, std::span<int> int_scratch) {
  const int m = static_cast<int>(cols), n = static_cast<int>(rows);
  T* values = scratch.data();
  T* work = values + std::min(rows, cols);
  const int work_size =
      static_cast<int>(SvdScratchSize<T>(rows, cols) - std::min(rows, cols));
  int info = 0;
  Routines<T>::gesdd("A", &m, &n, a, &m, values, right, &m, left, &n, work,
                     &work_size, int_scratch.data(), &info, 1);
  // V^T in column-major order has our left vectors as columns.
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      std::swap(left[i * rows + j], left[j * rows + i]);
    }
  }
  return info == 0;
}

#define GIMBAL_INSTANTIATE(T)                                                  \
  template void SyrkRows(int64_t, int64_t, T, const T*, T, T*);                \
  template void SyrkColumns(int64_t, int64_t, T, const T*, T, T*);             \
  template T Dot(int64_t, const T*, const T*);                                 \
  template void TimesVector(bool, int64_t, const T*, const T*, T*);            \
  template void SymmRight(int64_t, const T*, const T*, T*);                    \
  template int64_t EigenScratchSize<T>(int64_t);                               \
  template int64_t SvdScratchSize<T>(int64_t, int64_t);                        \
  template bool SingularVectorRows(int64_t, int64_t, T*, T*, T*, std::span<T>, \
                                   std::span<int>);                            \
  template bool EigenvectorRows(int64_t, T*, std::span<T>, std::span<int>);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::worker

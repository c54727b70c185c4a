#include "worker/compute/isa.h"
#include "worker/compute/small_gemm.h"

namespace gimbal::compute {
namespace {

#ifdef __AVX2__
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <typename T>
struct Simd {
  typedef T Vector
      __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
  static constexpr int kLanes = kVectorBytes / sizeof(T);
};

// A left factor whose element (i, p) is at[i * row + p * col].
template <typename T>
struct Left {
  const T* at;
  int64_t row;
  int64_t col;
};

// `rows` x (`vectors` of lanes) results.
template <typename T, int rows, int vectors>
void Block(int64_t k, T alpha, Left<T> a, const T* b, int64_t ldb, T beta, T* c,
           int64_t ldc) {
  using Vector = typename Simd<T>::Vector;
  constexpr int kLanes = Simd<T>::kLanes;
  Vector sum[rows][vectors] = {};
  for (int64_t p = 0; p < k; ++p) {
    for (int i = 0; i < rows; ++i) {
      const T factor = a.at[i * a.row + p * a.col];
      for (int j = 0; j < vectors; ++j) {
        sum[i][j] +=
            factor * *reinterpret_cast<const Vector*>(b + p * ldb + j * kLanes);
      }
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < vectors; ++j) {
      auto* out = reinterpret_cast<Vector*>(c + i * ldc + j * kLanes);
      *out = beta == 0 ? alpha * sum[i][j] : alpha * sum[i][j] + beta * *out;
    }
  }
}

template <typename T, int vectors>
void Columns(int64_t m, int64_t k, T alpha, Left<T> a, const T* b, int64_t ldb,
             T beta, T* c, int64_t ldc) {
  int64_t i = 0;
  for (; i + 6 <= m; i += 6, a.at += 6 * a.row) {
    Block<T, 6, vectors>(k, alpha, a, b, ldb, beta, c + i * ldc, ldc);
  }
  for (; i + 2 <= m; i += 2, a.at += 2 * a.row) {
    Block<T, 2, vectors>(k, alpha, a, b, ldb, beta, c + i * ldc, ldc);
  }
  if (i < m) Block<T, 1, vectors>(k, alpha, a, b, ldb, beta, c + i * ldc, ldc);
}

// b [n, k] to out [k, n].
template <typename T>
void Transpose(int64_t n, int64_t k, const T* b, int64_t ldb, T* out) {
  for (int64_t first = 0; first < n; first += 8) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = first; j < first + 8; ++j) {
        out[p * n + j] = b[j * ldb + p];
      }
    }
  }
}

template <typename T>
void SmallGemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
               T alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
               T beta, T* c, int64_t ldc) {
  alignas(64) T transposed[kSmallGemmMaxRight];
  if (trans_b) {
    Transpose(n, k, b, ldb, transposed);
    b = transposed;
    ldb = n;
  }
  const Left<T> left = {a, trans_a ? 1 : lda, trans_a ? lda : 1};
  constexpr int64_t kLanes = Simd<T>::kLanes;
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    Columns<T, 2>(m, k, alpha, left, b + j, ldb, beta, c + j, ldc);
  }
  if (j < n) Columns<T, 1>(m, k, alpha, left, b + j, ldb, beta, c + j, ldc);
}

template <typename T>
constexpr SmallGemmKernels<T> kKernels = {SmallGemm<T>};

}  // namespace

template <>
const SmallGemmKernels<float>&
Variant<SmallGemmKernels<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const SmallGemmKernels<double>&
Variant<SmallGemmKernels<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute

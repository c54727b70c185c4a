#include "worker/compute/isa.h"
#include "worker/compute/small_gemm.h"

namespace gimbal::compute {
namespace {

// As many sums as there are registers, but for the factors.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kTileRows = 8;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kTileRows = 6;
#else
constexpr int kVectorBytes = 16;
constexpr int kTileRows = 6;
#endif

template <typename T, int lanes>
struct Simd {
  typedef T Vector __attribute__((vector_size(lanes * sizeof(T)),
                                  aligned(sizeof(T)), may_alias));
};

template <typename T>
constexpr int kLanes = kVectorBytes / sizeof(T);
// Columns come in eights (IsSmallGemm), in fewer than a vector of AVX-512.
constexpr int kColumns = 8;

// A left factor whose element (i, p) is at[i * row + p * col].
template <typename T>
struct Left {
  const T* at;
  int64_t row;
  int64_t col;
};

// `rows` x (`vectors` of `lanes`) results.
template <typename T, int rows, int vectors, int lanes>
void Block(int64_t k, T alpha, Left<T> a, const T* b, int64_t ldb, T beta, T* c,
           int64_t ldc) {
  using Vector = typename Simd<T, lanes>::Vector;
  Vector sum[rows][vectors] = {};
  for (int64_t p = 0; p < k; ++p) {
    for (int i = 0; i < rows; ++i) {
      const T factor = a.at[i * a.row + p * a.col];
      for (int j = 0; j < vectors; ++j) {
        sum[i][j] +=
            factor * *reinterpret_cast<const Vector*>(b + p * ldb + j * lanes);
      }
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < vectors; ++j) {
      auto* out = reinterpret_cast<Vector*>(c + i * ldc + j * lanes);
      *out = beta == 0 ? alpha * sum[i][j] : alpha * sum[i][j] + beta * *out;
    }
  }
}

// All columns of `rows` rows, so that they are written one after the other.
template <typename T, int rows>
void Rows(int64_t n, int64_t k, T alpha, Left<T> a, const T* b, int64_t ldb,
          T beta, T* c, int64_t ldc) {
  constexpr int lanes = kLanes<T>;
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    Block<T, rows, 2, lanes>(k, alpha, a, b + j, ldb, beta, c + j, ldc);
  }
  for (; j + lanes <= n; j += lanes) {
    Block<T, rows, 1, lanes>(k, alpha, a, b + j, ldb, beta, c + j, ldc);
  }
  if constexpr (lanes > kColumns) {
    if (j == n) return;
    Block<T, rows, 1, kColumns>(k, alpha, a, b + j, ldb, beta, c + j, ldc);
  }
}

// Eight rows of eight, as columns.
template <typename T>
void TransposeTile(const T* b, int64_t ldb, T* out, int64_t ldo) {
  using Vector = typename Simd<T, 8>::Vector;
  Vector r[8], s[8];
  for (int i = 0; i < 8; ++i) {
    r[i] = *reinterpret_cast<const Vector*>(b + i * ldb);
  }
  for (int i = 0; i < 8; i += 2) {  // tiles of 2 x 2
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    s[i + 1] =
        __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int j = 0; j < 4; ++j) {  // of 4 x 4
    const int i = j + j / 2 * 2;
    r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 2] =
        __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<Vector*>(out + i * ldo) =
        __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<Vector*>(out + (i + 4) * ldo) =
        __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// b [n, k] to out [k, n].
template <typename T>
void Transpose(int64_t n, int64_t k, const T* b, int64_t ldb, T* out) {
  for (int64_t j = 0; j < n; j += 8) {
    int64_t p = 0;
    for (; p + 8 <= k; p += 8) {
      TransposeTile(b + j * ldb + p, ldb, out + p * n + j, n);
    }
    for (; p < k; ++p) {
      for (int64_t i = j; i < j + 8; ++i) out[p * n + i] = b[i * ldb + p];
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
  Left<T> left = {a, trans_a ? 1 : lda, trans_a ? lda : 1};
  const auto next = [&](int rows) {
    m -= rows;
    left.at += rows * left.row;
    c += rows * ldc;
  };
  for (; m >= kTileRows; next(kTileRows)) {
    Rows<T, kTileRows>(n, k, alpha, left, b, ldb, beta, c, ldc);
  }
  for (; m >= 2; next(2)) {
    Rows<T, 2>(n, k, alpha, left, b, ldb, beta, c, ldc);
  }
  if (m > 0) Rows<T, 1>(n, k, alpha, left, b, ldb, beta, c, ldc);
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

// Matrix products too small for BLAS to pack its operands with profit: one
// stage of a narrow model makes thousands of them per update.
//
// A block of 6 x 16 results stays in registers while k runs once, forwards, in
// FMAs; so bits do not depend on m and n. The right factor must fit the L1
// cache, and n must be a multiple of 8. Measured on one AVX2 core against
// OpenBLAS 0.3.21: 512x128x32 80 : 53 GFLOP/s, 64x64x16 52 : 35, 32x32x32 80 :
// 43; from 256x256x256 on BLAS is faster.
//
// Called by Gemm (worker/compute/gemm.h). Thread-safe.
#pragma once

#include <cstdint>

namespace gimbal::compute {

constexpr int64_t kSmallGemmMaxRight = 128 * 128;  // k * n
constexpr int64_t kSmallGemmMaxK = 512;
constexpr int64_t kSmallGemmMaxWork = int64_t{1} << 22;  // m * n * k

inline bool IsSmallGemm(int64_t m, int64_t n, int64_t k) {
  return n % 8 == 0 && k <= kSmallGemmMaxK && k * n <= kSmallGemmMaxRight &&
         m * n * k <= kSmallGemmMaxWork;
}

template <typename T>
struct SmallGemmKernels {
  // As Gemm, for shapes that IsSmallGemm allows.
  void (*gemm)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
               T alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
               T beta, T* c, int64_t ldc);
};

}  // namespace gimbal::compute

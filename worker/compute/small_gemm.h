// Matrix products too small for BLAS to pack its operands with profit: one
// stage of a narrow model makes thousands of them per update.
//
// A block of 6 x 16 results, of 8 x 32 with AVX-512, stays in registers while k
// runs once, forwards, in FMAs; so bits do not depend on m and n. The right
// factor should fit the L1 cache, and n must be a multiple of 8. Measured on
// one core of an EPYC 9004, in GFLOP/s with AVX-512 : with AVX2 : of OpenBLAS
// 0.3.21: 512x128x32 103 : 104 : 87, 64x64x16 92 : 92 : 68, 128x32x512 with a
// transposed left factor 115 : 92 : 89, all products of a block of width 32
// together 105 : 101 : 90; from 256x256x256 on BLAS is faster.
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

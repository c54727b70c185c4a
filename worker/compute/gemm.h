// C = alpha op(A) op(B) + beta C for row-major matrices: small ones by
// worker/compute/small_gemm.h, others by OpenBLAS.
//
// op(A) is m x k, op(B) is k x n, C is m x n; ld* is the distance between rows
// as stored. C overlaps neither A nor B. With beta = 0, C need not be
// initialised. Dimensions are below 2^31, sizes are 64-bit.
//
// Thread-safe. Bits depend on the shape and on SetThreads, not on time.
#pragma once

#include <cstdint>

namespace gimbal::compute {

enum class Trans { kNo, kYes };

template <typename T>
void Gemm(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k,
          T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc);

}  // namespace gimbal::compute

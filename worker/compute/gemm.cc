#include "worker/compute/gemm.h"

#include <cblas.h>

#include "worker/compute/isa.h"
#include "worker/compute/small_gemm.h"

namespace gimbal::compute {
namespace {

CBLAS_TRANSPOSE Blas(Trans trans) {
  return trans == Trans::kYes ? CblasTrans : CblasNoTrans;
}

blasint Int(int64_t n) { return static_cast<blasint>(n); }

constexpr auto Blas(float /*type*/) { return cblas_sgemm; }
constexpr auto Blas(double /*type*/) { return cblas_dgemm; }

}  // namespace

template <typename T>
void Gemm(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k,
          T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc) {
  if (IsSmallGemm(m, n, k)) {
    Kernels<SmallGemmKernels<T>>().gemm(trans_a == Trans::kYes,
                                        trans_b == Trans::kYes, m, n, k, alpha,
                                        a, lda, b, ldb, beta, c, ldc);
    return;
  }
  Blas(T{})(CblasRowMajor, Blas(trans_a), Blas(trans_b), Int(m), Int(n), Int(k),
            alpha, a, Int(lda), b, Int(ldb), beta, c, Int(ldc));
}

template void Gemm<float>(Trans, Trans, int64_t, int64_t, int64_t, float,
                          const float*, int64_t, const float*, int64_t, float,
                          float*, int64_t);
template void Gemm<double>(Trans, Trans, int64_t, int64_t, int64_t, double,
                           const double*, int64_t, const double*, int64_t,
                           double, double*, int64_t);

}  // namespace gimbal::compute

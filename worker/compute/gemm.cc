#include "worker/compute/gemm.h"

#include <cblas.h>

namespace gimbal::compute {
namespace {

CBLAS_TRANSPOSE Blas(Trans trans) {
  return trans == Trans::kYes ? CblasTrans : CblasNoTrans;
}

blasint Int(int64_t n) { return static_cast<blasint>(n); }

}  // namespace

template <>
void Gemm<float>(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const float* a, int64_t lda, const float* b,
                 int64_t ldb, float beta, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, Blas(trans_a), Blas(trans_b), Int(m), Int(n),
              Int(k), alpha, a, Int(lda), b, Int(ldb), beta, c, Int(ldc));
}

template <>
void Gemm<double>(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k,
                  double alpha, const double* a, int64_t lda, const double* b,
                  int64_t ldb, double beta, double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, Blas(trans_a), Blas(trans_b), Int(m), Int(n),
              Int(k), alpha, a, Int(lda), b, Int(ldb), beta, c, Int(ldc));
}

}  // namespace gimbal::compute

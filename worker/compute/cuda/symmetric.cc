#include "worker/compute/cuda/symmetric.h"

#include "worker/compute/cuda/check.h"

namespace gimbal::compute::cuda {
namespace {

// A workspace of our own makes the bits independent of other streams.
constexpr int64_t kWorkspace = int64_t{8} << 20;

void CheckBlas(cublasStatus_t status, const char* what, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  Fail(what, __FILE__, line, cublasGetStatusString(status));
}
#define CHECK_BLAS(call) CheckBlas((call), #call, __LINE__)

}  // namespace

SymmetricProducts::SymmetricProducts(cudaStream_t stream)
    : workspace_(kWorkspace) {
  CHECK_BLAS(cublasCreate(&handle_));
  CHECK_BLAS(cublasSetStream(handle_, stream));
  CHECK_BLAS(
      cublasSetWorkspace(handle_, workspace_.data(), workspace_.bytes()));
}

SymmetricProducts::~SymmetricProducts() { cublasDestroy(handle_); }

// cuBLAS is column-major: it sees a transposed, and our lower triangle as the
// upper one.
void SymmetricProducts::Rows(int64_t n, int64_t k, float alpha, const float* a,
                             float beta, float* c) {
  CHECK_BLAS(cublasSsyrk(handle_, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_T,
                         static_cast<int>(n), static_cast<int>(k), &alpha, a,
                         static_cast<int>(k), &beta, c, static_cast<int>(n)));
}

void SymmetricProducts::Columns(int64_t n, int64_t k, float alpha,
                                const float* a, float beta, float* c) {
  CHECK_BLAS(cublasSsyrk(handle_, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
                         static_cast<int>(n), static_cast<int>(k), &alpha, a,
                         static_cast<int>(n), &beta, c, static_cast<int>(n)));
}

}  // namespace gimbal::compute::cuda

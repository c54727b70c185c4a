// cuBLAS.
#include <cstdint>
#include <new>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/include/cublas_v2.h"
#include "tests/cuda_host/product.h"
#include "tests/cuda_host/runtime.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

using namespace gimbal::cuda_host;

namespace {

cublasStatus_t StatusOf(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasComputeType_t ComputeOf(cublasHandle_t handle) {
  switch (handle->math) {
    case CUBLAS_TF32_TENSOR_OP_MATH:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case CUBLAS_PEDANTIC_MATH:
      return CUBLAS_COMPUTE_32F_PEDANTIC;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  // As the real one.
  const cudaError_t error = Device::Get().WaitForAll();
  delete handle;
  return StatusOf(error);
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle,
                                  cudaStream_t streamId) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = streamId;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle,
                                    cublasAtomicsMode_t /*mode*/) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED
                           : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                     size_t /*workspaceSizeInBytes*/) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  // It must be aligned to 256 bytes.
  return reinterpret_cast<uintptr_t>(workspace) % 256 == 0
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown cuBLAS status";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void* alpha, const void* A, cudaDataType Atype,
    int lda, long long int strideA, const void* B, cudaDataType Btype, int ldb,
    long long int strideB, const void* beta, void* C, cudaDataType Ctype,
    int ldc, long long int strideC, int batchCount,
    cublasComputeType_t computeType, cublasGemmAlgo_t /*algo*/) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  Product product;
  product.trans_a = transa != CUBLAS_OP_N;
  product.trans_b = transb != CUBLAS_OP_N;
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.batch = batchCount;
  product.compute = computeType;
  product.a = {const_cast<void*>(A),    Atype, product.trans_a ? k : m,
               product.trans_a ? m : k, lda,   strideA};
  product.b = {const_cast<void*>(B),    Btype, product.trans_b ? n : k,
               product.trans_b ? k : n, ldb,   strideB};
  product.c = product.d = {C, Ctype, m, n, ldc, strideC};
  const cublasStatus_t status = Check(product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return StatusOf(Device::Get().Enqueue(
      handle->stream, OnceChecked([product] { return Execute(product); })));
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k,
                            const void* alpha, const void* A,
                            cudaDataType Atype, int lda, const void* B,
                            cudaDataType Btype, int ldb, const void* beta,
                            void* C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A,
                                    Atype, lda, 0, B, Btype, ldb, 0, beta, C,
                                    Ctype, ldc, 0, 1, computeType, algo);
}

cublasStatus_t cublasSgemmStridedBatched(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const float* alpha, const float* A, int lda,
    long long int strideA, const float* B, int ldb, long long int strideB,
    const float* beta, float* C, int ldc, long long int strideC,
    int batchCount) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return cublasGemmStridedBatchedEx(
      handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda, strideA, B,
      CUDA_R_32F, ldb, strideB, beta, C, CUDA_R_32F, ldc, strideC, batchCount,
      ComputeOf(handle), CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa,
                              cublasOperation_t transb, int m, int n, int k,
                              const float* alpha, const float* A, int lda,
                              const float* B, int ldb, const float* beta,
                              float* C, int ldc) {
  return cublasSgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A,
                                   lda, 0, B, ldb, 0, beta, C, ldc, 0, 1);
}

cublasStatus_t cublasSsyrk_v2(cublasHandle_t handle, cublasFillMode_t uplo,
                              cublasOperation_t trans, int n, int k,
                              const float* alpha, const float* A, int lda,
                              const float* beta, float* C, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  SymmetricProduct product;
  product.upper = uplo == CUBLAS_FILL_MODE_UPPER;
  product.trans = trans != CUBLAS_OP_N;
  product.alpha = *alpha;
  product.beta = *beta;
  product.a = {const_cast<float*>(A), CUDA_R_32F, product.trans ? k : n,
               product.trans ? n : k, lda,        0};
  product.c = {C, CUDA_R_32F, n, n, ldc, 0};
  if (n < 0 || k < 0 || lda < product.a.rows || ldc < n) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return StatusOf(Device::Get().Enqueue(
      handle->stream, OnceChecked([product] { return Execute(product); })));
}

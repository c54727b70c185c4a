// cuBLASLt.
#include <cstring>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/include/cublasLt.h"
#include "tests/cuda_host/product.h"

struct cublasLtContext {};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType scale;
  int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_stride = 0;
  // -1: the type of D.
  int32_t bias_type = -1;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t max_workspace = 0;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

using namespace gimbal::cuda_host;

namespace {

constexpr size_t kVersion = 130000;

// An attribute is as wide as the manual says.
template <typename T>
cublasStatus_t Set(T* field, const void* buf, size_t size) {
  if (buf == nullptr || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(field, buf, size);
  return CUBLAS_STATUS_SUCCESS;
}

Matrix MatrixOf(const void* data, const cublasLtMatrixLayoutOpaque_t& layout) {
  return {const_cast<void*>(data),
          layout.type,
          static_cast<int64_t>(layout.rows),
          static_cast<int64_t>(layout.cols),
          layout.ld,
          layout.stride};
}

// Fails on what is not supported.
bool SetEpilogue(const cublasLtMatmulDescOpaque_t& desc, Product* product) {
  if (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  if (desc.epilogue != CUBLASLT_EPILOGUE_BIAS || desc.bias == nullptr) {
    return false;
  }
  product->bias = {desc.bias,
                   desc.bias_type < 0
                       ? product->d.type
                       : static_cast<cudaDataType>(desc.bias_type),
                   desc.bias_stride};
  return true;
}

cublasStatus_t Assemble(const cublasLtMatmulDescOpaque_t& desc, const void* A,
                        const cublasLtMatrixLayoutOpaque_t& a, const void* B,
                        const cublasLtMatrixLayoutOpaque_t& b, const void* C,
                        const cublasLtMatrixLayoutOpaque_t& c, void* D,
                        const cublasLtMatrixLayoutOpaque_t& d,
                        Product* product) {
  if (desc.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const auto* layout : {&a, &b, &c, &d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (layout->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  }
  product->trans_a = desc.trans_a != CUBLAS_OP_N;
  product->trans_b = desc.trans_b != CUBLAS_OP_N;
  product->compute = desc.compute;
  product->batch = d.batch;
  product->a = MatrixOf(A, a);
  product->b = MatrixOf(B, b);
  product->c = MatrixOf(C, c);
  product->d = MatrixOf(D, d);
  if (!SetEpilogue(desc, product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return Check(*product);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* lightHandle) {
  *lightHandle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle) {
  if (lightHandle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete lightHandle;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return cublasGetStatusName(status);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasGetStatusString(status);
}

size_t cublasLtGetVersion() { return kVersion; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matLayout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  *matLayout = new cublasLtMatrixLayoutOpaque_t{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) {
  delete matLayout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t matLayout, cublasLtMatrixLayoutAttribute_t attr,
    const void* buf, size_t sizeInBytes) {
  switch (attr) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return Set(&matLayout->order, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Set(&matLayout->batch, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Set(&matLayout->stride, buf, sizeInBytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmulDesc,
                                        cublasComputeType_t computeType,
                                        cudaDataType_t scaleType) {
  *matmulDesc = new cublasLtMatmulDescOpaque_t{computeType, scaleType};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) {
  delete matmulDesc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr,
    const void* buf, size_t sizeInBytes) {
  switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(&matmulDesc->trans_a, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(&matmulDesc->trans_b, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(&matmulDesc->epilogue, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(&matmulDesc->bias, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return Set(&matmulDesc->bias_stride, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return Set(&matmulDesc->bias_type, buf, sizeInBytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(
    cublasLtMatmulPreference_t* pref) {
  *pref = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t pref) {
  delete pref;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attr,
    const void* buf, size_t sizeInBytes) {
  switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(&pref->max_workspace, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return Set(&pref->reduction_mask, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Set(
          &pref->alignment[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
          buf, sizeInBytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
    cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
    int* returnAlgoCount) {
  *returnAlgoCount = 0;
  if (lightHandle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (preference == nullptr || requestedAlgoCount < 1) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // Pointers are not looked at.
  Product product;
  const cublasStatus_t status =
      Assemble(*operationDesc, nullptr, *Adesc, nullptr, *Bdesc, nullptr,
               *Cdesc, nullptr, *Ddesc, &product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  heuristicResultsArray[0] = {};
  heuristicResultsArray[0].state = CUBLAS_STATUS_SUCCESS;
  heuristicResultsArray[0].algo.data[0] = 1;
  *returnAlgoCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
    const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc,
    const void* B, cublasLtMatrixLayout_t Bdesc, const void* beta,
    const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
    cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo,
    void* /*workspace*/, size_t /*workspaceSizeInBytes*/, cudaStream_t stream) {
  if (lightHandle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  // One that no heuristic gave.
  if (algo != nullptr && algo->data[0] != 1) return CUBLAS_STATUS_INVALID_VALUE;
  Product product;
  const cublasStatus_t status = Assemble(*computeDesc, A, *Adesc, B, *Bdesc, C,
                                         *Cdesc, D, *Ddesc, &product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  const cudaError_t error = Device::Get().Enqueue(
      stream, OnceChecked([product] { return Execute(product); }));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

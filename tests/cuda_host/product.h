// Matrix products on OpenBLAS, for cuBLAS and cuBLASLt.
#pragma once

#include <cstdint>
#include <string>

#include "tests/cuda_host/include/cublas_api.h"

namespace gimbal::cuda_host {

// Column-major matrices on the device, `stride` elements apart.
struct Matrix {
  void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0, cols = 0, ld = 0, stride = 0;

  size_t element_bytes() const { return type == CUDA_R_32F ? 4 : 2; }
};

// Added to every column of a product, one element per row.
struct Bias {
  const void* data = nullptr;  // null: none
  cudaDataType type = CUDA_R_32F;
  int64_t stride = 0;  // Elements from one product of a batch to the next.
};

// D = alpha op(A) op(B) + beta C + bias for each of `batch`.
struct Product {
  bool trans_a = false, trans_b = false;
  float alpha = 1, beta = 0;
  Matrix a, b, c, d;
  int64_t batch = 1;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  Bias bias;
};

// Whether the shapes and types fit together and are supported.
cublasStatus_t Check(const Product& product);

// Returns what is wrong with where the matrices lie, or nothing. On the
// device's thread.
std::string Execute(const Product& product);

// One triangle of C = alpha A A^T + beta C, or A^T A; fp32, with C n x n.
struct SymmetricProduct {
  bool upper = false, trans = false;
  float alpha = 1, beta = 0;
  Matrix a, c;
};
std::string Execute(const SymmetricProduct& product);

// "NAME lies beyond an allocation" if one of `batch` matrices does.
std::string CheckPlace(const Matrix& matrix, int64_t batch, const char* name);

}  // namespace gimbal::cuda_host

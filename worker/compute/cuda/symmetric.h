// Symmetric products of row-major matrices by cuBLAS, as worker/optim/lapack.h
// has them: the lower triangle is computed, the other one is left alone.
// Asynchronous on the stream.
//
// Not thread-safe. Throws CudaError.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/memory.h"

namespace gimbal::compute::cuda {

class SymmetricProducts {
 public:
  // All products go into this stream. Takes 8 MiB of device memory.
  explicit SymmetricProducts(cudaStream_t stream);
  ~SymmetricProducts();
  SymmetricProducts(const SymmetricProducts&) = delete;

  // c = alpha a a^T + beta c, for a [n, k], c [n, n].
  // Bytes: 4 n k + 4 n^2. FLOP: n^2 k.
  void Rows(int64_t n, int64_t k, float alpha, const float* a, float beta,
            float* c);
  // c = alpha a^T a + beta c, for a [k, n], c [n, n].
  // Bytes: 4 n k + 4 n^2. FLOP: n^2 k.
  void Columns(int64_t n, int64_t k, float alpha, const float* a, float beta,
               float* c);

 private:
  DeviceBuffer<char> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace gimbal::compute::cuda

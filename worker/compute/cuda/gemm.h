// Matrix products of row-major matrices by cuBLASLt, with what can be fused
// into them. Asynchronous on the stream.
//
// The first product of a shape chooses an algorithm and keeps it: later ones
// only launch. Algorithms that add up in an order of their own are not
// admitted, so bits depend on shapes, device and library alone.
//
// Not thread-safe. Throws CudaError.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>

#include "worker/compute/gemm.h"
#include "worker/compute/linear.h"

namespace gimbal::compute::cuda {

// D = alpha op(A) op(B) + beta C + bias for each of `batch` matrices.
// op(A) is m x k, op(B) k x n, C and D m x n with the same row distance; C may
// be D. A stride is the distance from one matrix of the batch to the next.
struct GemmCall {
  Trans trans_a = Trans::kNo, trans_b = Trans::kNo;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  const float* c = nullptr;
  float* d = nullptr;
  int64_t ldd = 0;
  const float* bias = nullptr;  // [n], for every row; null: none
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;
};

class Gemm {
 public:
  // Takes 32 MiB of device memory as workspace. One Gemm serves one stream at a
  // time.
  Gemm();
  ~Gemm();
  Gemm(const Gemm&) = delete;

  // Bytes, once each: 4 (m k + k n + m n (1 + C)). FLOP: 2 m n k per matrix.
  void operator()(cudaStream_t stream, const GemmCall& call);

 private:
  struct Key;
  struct Plan;
  Plan& PlanOf(const GemmCall& call);

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

// y = x w^T + bias + addend, as worker/compute/linear.h: bias and addend are
// part of the product. FLOP: 2 rows in out.
void LinearForward(cudaStream_t stream, Gemm& gemm, const LinearShape& shape,
                   const float* x, const float* w, const float* bias,
                   const float* addend, float* y);

// dx = alpha dy w. FLOP: 2 rows in out.
void LinearBackwardInput(cudaStream_t stream, Gemm& gemm,
                         const LinearShape& shape, float alpha, const float* dy,
                         const float* w, float* dx);

// dw += alpha dy^T x. FLOP: 2 rows in out.
void LinearBackwardWeight(cudaStream_t stream, Gemm& gemm,
                          const LinearShape& shape, float alpha,
                          const float* dy, const float* x, float* dw);

}  // namespace gimbal::compute::cuda

// Matrix products of row-major matrices by cuBLASLt, with what can be fused
// into them: of fp32, of bf16, or of bf16 with a result in fp32. Sums are fp32,
// a result in bf16 is rounded once. Asynchronous on the stream.
//
// The first product of a shape chooses an algorithm and keeps it: later ones
// only launch. Algorithms that add up in an order of their own are not
// admitted, so bits depend on shapes, device and library alone.
//
// Not thread-safe. Throws CudaError.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "worker/compute/cuda/element.h"
#include "worker/compute/gemm.h"
#include "worker/compute/linear.h"

namespace gimbal::compute::cuda {

// A matrix that is written, and of what.
struct Target {
  Target() = default;
  Target(float* p) : data(p) {}
  Target(Bf16* p) : data(p), type(CUDA_R_16BF) {}

  void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
};

// One that is read, or nothing.
struct Source {
  Source() = default;
  Source(std::nullptr_t) {}
  Source(const float* p) : data(p) {}
  Source(const Bf16* p) : data(p), type(CUDA_R_16BF) {}
  Source(const Target& target) : data(target.data), type(target.type) {}

  explicit operator bool() const { return data != nullptr; }

  const void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
};

// D = alpha op(A) op(B) + beta C + bias for each of `batch` matrices.
// op(A) is m x k, op(B) k x n, C and D m x n with the same row distance; C may
// be D. A and B are of one type, so are C, D and the bias. A stride is the
// distance from one matrix of the batch to the next.
struct GemmCall {
  Trans trans_a = Trans::kNo, trans_b = Trans::kNo;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  Source a = {};
  int64_t lda = 0;
  Source b = {};
  int64_t ldb = 0;
  Source c = {};
  Target d = {};
  int64_t ldd = 0;
  Source bias = {};  // [n], for every row
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;
  // Takes the algorithm that a batch of so many gets: a part of it then has the
  // bits of the whole. 0: of `batch`.
  int64_t as_batch = 0;
};

class Gemm {
 public:
  // Takes 32 MiB of device memory as workspace. One Gemm serves one stream at a
  // time. tf32: factors of fp32 are rounded to TF32 (10 bits behind the point),
  // which tensor cores multiply; sums stay fp32.
  explicit Gemm(bool tf32 = false);
  ~Gemm();
  Gemm(const Gemm&) = delete;

  // Bytes, once each: E (m k + k n + m n (1 + C)). FLOP: 2 m n k per matrix.
  void operator()(cudaStream_t stream, const GemmCall& call);

 private:
  struct Key;
  struct Plan;
  Plan& PlanOf(const GemmCall& call);

  const cublasComputeType_t compute_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

// y = x w^T + bias + addend, as worker/compute/linear.h: bias and addend are
// part of the product. FLOP: 2 rows in out.
void LinearForward(cudaStream_t stream, Gemm& gemm, const LinearShape& shape,
                   Source x, Source w, Source bias, Source addend, Target y);

// dx = alpha dy w. FLOP: 2 rows in out.
void LinearBackwardInput(cudaStream_t stream, Gemm& gemm,
                         const LinearShape& shape, float alpha, Source dy,
                         Source w, Target dx);

// dw += alpha dy^T x. FLOP: 2 rows in out.
void LinearBackwardWeight(cudaStream_t stream, Gemm& gemm,
                          const LinearShape& shape, float alpha, Source dy,
                          Source x, Target dw);

}  // namespace gimbal::compute::cuda

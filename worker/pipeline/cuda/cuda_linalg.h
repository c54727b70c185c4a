// Products and factorisations of batches of matrices for update rules. All of
// it happens in one stream; factorisations spread over solvers in streams of
// their own, which begin after what is in the stream and which the stream waits
// for.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "worker/compute/cuda/gemm.h"
#include "worker/compute/cuda/memory.h"
#include "worker/compute/cuda/solver.h"
#include "worker/compute/cuda/symmetric.h"

namespace gimbal::worker {

// One of three matrices of a product, for each of a batch.
struct BatchOperand {
  const float* data = nullptr;
  int64_t stride = 0;  // 0: one for all
};

class CudaLinalg {
 public:
  // `gemm` must outlive it, and is used in this stream alone.
  CudaLinalg(cudaStream_t stream, compute::cuda::Gemm& gemm)
      : stream_(stream), gemm_(gemm), symmetric_(stream) {}

  cudaStream_t stream() const { return stream_; }
  compute::cuda::SymmetricProducts& symmetric() { return symmetric_; }

  // Products of batches from now on take the algorithm of a batch of `count`
  // (GemmCall::as_batch).
  void ChooseFor(int64_t count) { as_batch_ = count; }

  // d = alpha op(a) op(b) + beta c for matrices without gaps: op(a) [m, k],
  // op(b) [k, n], c and d [m, n].
  struct Shape {
    compute::Trans trans_a = compute::Trans::kNo;
    compute::Trans trans_b = compute::Trans::kNo;
    int64_t count = 0, m = 0, n = 0, k = 0;
    float alpha = 1, beta = 0;
  };
  // c has the stride of d.
  void Product(const Shape& shape, BatchOperand a, BatchOperand b, float* d,
               int64_t stride_d, const float* c = nullptr);

  // Makes the solvers, for OrthonormalizeRows up to a side of n.
  void ReserveSolvers(int64_t n);
  // Calls one(solver, i) for each of `count` matrices.
  void Solve(int64_t count,
             const std::function<void(compute::cuda::Solver&, int64_t)>& one);

 private:
  const cudaStream_t stream_;
  compute::cuda::Gemm& gemm_;
  int64_t as_batch_ = 0;
  compute::cuda::SymmetricProducts symmetric_;
  std::list<compute::cuda::Solver> solvers_;
  compute::cuda::Event ready_;
};

}  // namespace gimbal::worker

#include "worker/pipeline/cuda/cuda_linalg.h"

namespace gimbal::worker {
namespace {

using compute::Trans;

// One factorisation leaves most of a device idle; more of them than this gain
// nothing and hold a workspace each.
constexpr int kSolvers = 4;

}  // namespace

void CudaLinalg::Product(const Shape& shape, BatchOperand a, BatchOperand b,
                         float* d, int64_t stride_d, const float* c) {
  gemm_(stream_, {.trans_a = shape.trans_a,
                  .trans_b = shape.trans_b,
                  .m = shape.m,
                  .n = shape.n,
                  .k = shape.k,
                  .alpha = shape.alpha,
                  .beta = shape.beta,
                  .a = a.data,
                  .lda = shape.trans_a == Trans::kYes ? shape.m : shape.k,
                  .b = b.data,
                  .ldb = shape.trans_b == Trans::kYes ? shape.k : shape.n,
                  .c = c,
                  .d = d,
                  .ldd = shape.n,
                  .batch = shape.count,
                  .stride_a = a.stride,
                  .stride_b = b.stride,
                  .stride_d = stride_d,
                  .as_batch = as_batch_});
}

void CudaLinalg::ReserveSolvers(int64_t n) {
  if (solvers_.empty()) solvers_.resize(kSolvers);
  for (auto& solver : solvers_) solver.Reserve(n);
}

void CudaLinalg::Solve(
    int64_t count,
    const std::function<void(compute::cuda::Solver&, int64_t)>& one) {
  GIMBAL_CUDA_CHECK(cudaEventRecord(ready_.get(), stream_));
  for (auto& solver : solvers_) solver.After(ready_);
  auto solver = solvers_.begin();
  for (int64_t i = 0; i < count; ++i) {
    one(*solver, i);
    if (++solver == solvers_.end()) solver = solvers_.begin();
  }
  for (auto& each : solvers_) each.Join(stream_);
}

}  // namespace gimbal::worker

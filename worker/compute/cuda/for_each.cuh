// One pass over arrays, element by element. An operation is a struct with its
// arrays and coefficients and
//   template <int W> __device__ void At(int64_t i) const;   elements i ...
//   i+W-1
#pragma once

#include <initializer_list>

#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {

constexpr int kForEachThreads = 256;

template <int W, typename Op>
__global__ void __launch_bounds__(kForEachThreads)
    ForEachKernel(int64_t n, Op op) {
  int64_t i =
      (static_cast<int64_t>(blockIdx.x) * kForEachThreads + threadIdx.x) * W;
  if (i + W <= n) {
    op.template At<W>(i);
  } else {
    for (; i < n; ++i) op.template At<1>(i);
  }
}

// `arrays`: those that `op` moves in packs. Empty launches are left out.
template <int W = 4, typename Op>
void ForEach(cudaStream_t stream, int64_t n, const Op& op,
             std::initializer_list<const void*> arrays) {
  if (n == 0) return;
  bool aligned = true;
  for (const void* array : arrays) aligned = aligned && Aligned(array);
  if (aligned) {
    Launch(ForEachKernel<W, Op>, Blocks(n, W * kForEachThreads),
           kForEachThreads, 0, stream, n, op);
  } else {
    Launch(ForEachKernel<1, Op>, Blocks(n, kForEachThreads), kForEachThreads, 0,
           stream, n, op);
  }
}

}  // namespace gimbal::compute::cuda

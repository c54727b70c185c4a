#include "worker/compute/cuda/cross_entropy.h"
#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {
namespace {

constexpr int kThreads = 256;
// Stands for minus infinity in a maximum, and survives a subtraction.
constexpr float kLowest = -3.4e38f;

template <int W, typename T>
__global__ void __launch_bounds__(kThreads)
    Kernel(int64_t vocab, float scale, const int32_t* targets, T* logits,
           float* losses) {
  __shared__ float of_max[kThreads / kWarp], of_sum[kThreads / kWarp];
  __shared__ float target_logit;
  T* x = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  const int64_t target = targets[blockIdx.x];
  const int64_t first = static_cast<int64_t>(threadIdx.x) * W;
  if (threadIdx.x == 0) target_logit = x[target];
  float max = kLowest, sum = 0;
  for (int64_t i = first; i < vocab; i += kThreads * W) {
    const Pack<W> pack = Load<W>(x + i);
    float larger = max;
    for (int j = 0; j < W; ++j) larger = fmaxf(larger, pack.at[j]);
    sum *= expf(max - larger);
    max = larger;
    for (int j = 0; j < W; ++j) sum += expf(pack.at[j] - max);
  }
  const float row_max = BlockMax(max, of_max);
  const float row_sum = BlockSum(sum * expf(max - row_max), of_sum);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(row_sum) - (target_logit - row_max);
  }
  const float factor = scale / row_sum;
  for (int64_t i = first; i < vocab; i += kThreads * W) {
    Pack<W> pack = Load<W>(x + i);
    for (int j = 0; j < W; ++j) {
      pack.at[j] = factor * expf(pack.at[j] - row_max);
      if (i + j == target) pack.at[j] -= scale;
    }
    Store(x + i, pack);
  }
}

}  // namespace

template <typename T>
void CrossEntropy(cudaStream_t stream, int64_t rows, int64_t vocab, float scale,
                  const int32_t* targets, T* logits_to_gradient,
                  float* losses) {
  Launch(vocab % kPack<T> == 0 ? Kernel<kPack<T>, T> : Kernel<1, T>,
         static_cast<unsigned>(rows), kThreads, 0, stream, vocab, scale,
         targets, logits_to_gradient, losses);
}

template void CrossEntropy(cudaStream_t, int64_t, int64_t, float,
                           const int32_t*, float*, float*);
template void CrossEntropy(cudaStream_t, int64_t, int64_t, float,
                           const int32_t*, Bf16*, float*);

}  // namespace gimbal::compute::cuda

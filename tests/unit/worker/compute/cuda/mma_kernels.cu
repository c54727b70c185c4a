#include "tests/unit/worker/compute/cuda/mma_kernels.h"
#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/mma.cuh"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {
namespace {

__global__ void Multiply(bool transposed, const Bf16* left, const Bf16* right,
                         float* sum) {
  __shared__ __align__(16) Bf16 tiles[2][16 * 16];
  const int lane = static_cast<int>(threadIdx.x);
  BeginCopy(&tiles[0][8 * lane], left + 8 * lane, false);
  BeginCopy(&tiles[1][8 * lane], right + 8 * lane, false);
  WaitForCopies();
  __syncthreads();
  // Matrices of 8 x 8: the upper left one, the one below, then those beside.
  const int row = lane % 16 * 16 + lane / 16 * 8;
  uint32_t words[4], others[4];
  LoadMatrices(words, &tiles[0][row]);
  float mine[4];
  float* const at = sum + lane / 4 * 8 + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) mine[i] = at[i / 2 * 64 + i % 2];
  if (transposed) {
    LoadMatrices(others, &tiles[1][row]);
    MultiplyAdd(mine, words, {others[0], others[2]});
  } else {
    LoadTransposed(others, &tiles[1][row]);
    MultiplyAdd(mine, words, {others[0], others[1]});
  }
  for (int i = 0; i < 4; ++i) at[i / 2 * 64 + i % 2] = mine[i];
}

__global__ void Copy(const float* numbers, float* out) {
  __shared__ float shared[kWarp];
  const unsigned lane = threadIdx.x;
  BeginCopy(&shared[lane], numbers + lane, lane % 2 == 1);
  WaitForCopies();
  __syncthreads();
  out[lane] = shared[kWarp - 1 - lane];
}

__global__ void PowersOf2(const float* x, float* out) {
  out[threadIdx.x] = Exp2(x[threadIdx.x]);
}

}  // namespace

void MultiplyByWarp(cudaStream_t stream, bool transposed, const Bf16* left,
                    const Bf16* right, float* sum) {
  Launch(Multiply, 1, kWarp, 0, stream, transposed, left, right, sum);
}

void CopyByWarp(cudaStream_t stream, const float* numbers, float* out) {
  Launch(Copy, 1, kWarp, 0, stream, numbers, out);
}

void Exp2ByWarp(cudaStream_t stream, const float* x, float* out) {
  Launch(PowersOf2, 1, kWarp, 0, stream, x, out);
}

}  // namespace gimbal::compute::cuda

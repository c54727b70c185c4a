// Device code that all kernels share: W floats moved by one instruction (16
// bytes for W = 4), and sums whose order depends on the shape alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gimbal::compute::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <int W>
struct alignas(W * 4) Pack {
  float at[W];
};

// `p` must be aligned to the pack.
template <int W>
__device__ inline Pack<W> Load(const float* p) {
  return *reinterpret_cast<const Pack<W>*>(p);
}

template <int W>
__device__ inline void Store(float* p, const Pack<W>& pack) {
  *reinterpret_cast<Pack<W>*>(p) = pack;
}

// Every lane gets the sum over the `width` neighbouring lanes it is among.
template <int width = kWarp, typename T>
__device__ inline T WarpSum(T x) {
  for (int step = width / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, step);
  }
  return x;
}

template <int width = kWarp>
__device__ inline float WarpMax(float x) {
  for (int step = width / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  }
  return x;
}

// Every thread gets the sum over the block, whose size is a multiple of a warp.
// `shared` has an element per warp and may be used again after a barrier.
template <typename T>
__device__ inline T BlockSum(T x, T* shared) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  x = WarpSum(x);
  if (threadIdx.x % kWarp == 0) shared[warp] = x;
  __syncthreads();
  T sum = 0;
  for (int i = 0; i < warps; ++i) sum += shared[i];
  return sum;
}

__device__ inline float BlockMax(float x, float* shared) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  x = WarpMax(x);
  if (threadIdx.x % kWarp == 0) shared[warp] = x;
  __syncthreads();
  float max = shared[0];
  for (int i = 1; i < warps; ++i) max = fmaxf(max, shared[i]);
  return max;
}

inline bool Aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

inline unsigned Blocks(int64_t work, int64_t per_block) {
  return static_cast<unsigned>((work + per_block - 1) / per_block);
}

}  // namespace gimbal::compute::cuda

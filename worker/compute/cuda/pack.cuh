// Device code that all kernels share: W numbers moved at once, by instructions
// of 16 bytes, and sums whose order depends on the shape alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/element.h"

namespace gimbal::compute::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// Numbers that one instruction moves.
template <typename T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

constexpr int PackAlignment(int bytes) { return bytes < 16 ? bytes : 16; }

// In registers.
template <int W>
struct alignas(PackAlignment(W * 4)) Pack {
  float at[W];
};

template <int W>
struct alignas(PackAlignment(W * 2)) Bf16Pack {
  Bf16 at[W];
};

// `p` must be aligned to the pack.
template <int W>
__device__ inline Pack<W> Load(const float* p) {
  return *reinterpret_cast<const Pack<W>*>(p);
}

template <int W>
__device__ inline Pack<W> Load(const Bf16* p) {
  const Bf16Pack<W> bits = *reinterpret_cast<const Bf16Pack<W>*>(p);
  Pack<W> pack;
  for (int j = 0; j < W; ++j) pack.at[j] = __bfloat162float(bits.at[j]);
  return pack;
}

template <int W>
__device__ inline void Store(float* p, const Pack<W>& pack) {
  *reinterpret_cast<Pack<W>*>(p) = pack;
}

template <int W>
__device__ inline void Store(Bf16* p, const Pack<W>& pack) {
  Bf16Pack<W> bits;
  for (int j = 0; j < W; ++j) bits.at[j] = __float2bfloat16_rn(pack.at[j]);
  *reinterpret_cast<Bf16Pack<W>*>(p) = bits;
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

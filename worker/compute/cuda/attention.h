// Causal multi-head self-attention, as worker/compute/attention.h: scores live
// in shared memory and registers, a tile at a time, and are never stored
// (FlashAttention-2, Dao 2023). Backward makes them twice, once for dq and once
// for dk and dv, which takes no atomics. All but lse and scores is of float or
// Bf16. Asynchronous on the stream.
//
// With N = samples * context and C = heads * head_dim:
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/attention.h"
#include "worker/compute/cuda/element.h"
#include "worker/compute/cuda/scratch.h"

namespace gimbal::compute::cuda {

inline constexpr int64_t kAttentionMaxHeadDim = 128;

// Bytes: 4 E N C, and k and v again from the cache for every 64 rows.
// FLOP: 2 N context C.
template <typename T>
void AttentionForward(cudaStream_t stream, const AttentionShape& shape,
                      const T* qkv, T* o, float* lse);

// `scratch` has AttentionBackwardScratch(shape) elements.
// Bytes: 11 E N C, and tiles again from the cache. FLOP: 7 N context C.
template <typename T>
void AttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                       const T* qkv, const T* o, const float* lse,
                       const T* dout, T* dqkv, float* scratch);

}  // namespace gimbal::compute::cuda

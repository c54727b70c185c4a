// Causal multi-head self-attention, as worker/compute/attention.h: scores live
// in shared memory and registers, a tile at a time, and are never stored
// (FlashAttention-2, Dao 2023). Backward makes them twice, once for dq and once
// for dk and dv, which takes no atomics. Asynchronous on the stream.
//
// With N = samples * context and C = heads * head_dim:
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/attention.h"

namespace gimbal::compute::cuda {

inline constexpr int64_t kAttentionMaxHeadDim = 128;

// Bytes: 16 N C, and k and v again from the cache for every 64 rows.
// FLOP: 2 N context C.
void AttentionForward(cudaStream_t stream, const AttentionShape& shape,
                      const float* qkv, float* o, float* lse);

// Elements of `scratch` below.
int64_t AttentionBackwardScratch(const AttentionShape& shape);

// Bytes: 44 N C, and tiles again from the cache. FLOP: 7 N context C.
void AttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                       const float* qkv, const float* o, const float* lse,
                       const float* dout, float* dqkv, float* scratch);

}  // namespace gimbal::compute::cuda

// Causal multi-head self-attention, as worker/compute/attention.h: scores live
// in shared memory and registers, a tile at a time, and are never stored
// (FlashAttention-2, Dao 2023). Backward makes them twice, once for dq and once
// for dk and dv, which takes no atomics. Asynchronous on the stream.
//
// In bf16 all products are made by tensor cores, with fp32 sums: probabilities,
// and in backward the gradients of scores, are rounded to bf16 before they are
// multiplied with values, keys and queries. Heads whose size is no multiple of
// 8 are moved number by number.
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

// Bytes: 4 E N C, and k and v again from the cache for every 64 rows (128
// in bf16). FLOP: 2 N context C.
void AttentionForward(cudaStream_t stream, const AttentionShape& shape,
                      const float* qkv, float* o, float* lse);
void AttentionForward(cudaStream_t stream, const AttentionShape& shape,
                      const Bf16* qkv, Bf16* o, float* lse);

// `scratch` has AttentionBackwardScratch(shape) elements.
// Bytes: 11 E N C, and tiles again from the cache. FLOP: 7 N context C (8 in
// bf16 with heads above 64).
void AttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                       const float* qkv, const float* o, const float* lse,
                       const float* dout, float* dqkv, float* scratch);
void AttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                       const Bf16* qkv, const Bf16* o, const float* lse,
                       const Bf16* dout, Bf16* dqkv, float* scratch);

}  // namespace gimbal::compute::cuda

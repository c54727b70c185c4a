// Numbers of one type as those of another, n of them. Asynchronous on the
// stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/element.h"

namespace gimbal::compute::cuda {

// Rounds to nearest even. Bytes: 6 n.
void ToBf16(cudaStream_t stream, int64_t n, const float* x, Bf16* y);

// Exact. Bytes: 6 n.
void FromBf16(cudaStream_t stream, int64_t n, const Bf16* x, float* y);

}  // namespace gimbal::compute::cuda

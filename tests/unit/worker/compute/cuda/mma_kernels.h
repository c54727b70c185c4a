// Kernels that a test of mma.cuh is made of.
#pragma once

#include <cuda_runtime.h>

#include "worker/compute/cuda/element.h"

namespace gimbal::compute::cuda {

// A warp each: sum [16, 8] += left [16, 16] right, which is [16, 8] beside 8
// more columns, or, transposed, [8, 16] above 8 more rows.
void MultiplyByWarp(cudaStream_t stream, bool transposed, const Bf16* left,
                    const Bf16* right, float* sum);

// A warp: numbers[32] through shared memory, those of odd lanes as zeros.
void CopyByWarp(cudaStream_t stream, const float* numbers, float* out);

// out[i] = 2^x[i], of a warp.
void Exp2ByWarp(cudaStream_t stream, const float* x, float* out);

}  // namespace gimbal::compute::cuda

// What worker/compute/cuda/mma.cuh says in PTX on a device.
#pragma once

#include <cmath>
#include <cstdint>

#include "gimbal_device_language.h"

namespace gimbal::cuda_host {

// mma.sync.m16n8k16 of bf16 with fp32 sums, which are added in the order of the
// factors' inner index: sum[4] += left[4] right[2]. A warp's.
void MultiplyAdd(float* sum, const uint32_t* left, const uint32_t* right);

// ldmatrix.x4 of 16 bit, and with .trans: to[4] from `row`, of 16 bytes in
// shared memory. A warp's.
void LoadMatrices(uint32_t* to, const void* row, bool transposed);

inline float Exp2(float x) { return exp2f(x); }

}  // namespace gimbal::cuda_host

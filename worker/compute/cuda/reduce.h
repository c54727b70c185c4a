// Sums and checks over arrays, in an order that depends on the shape alone.
// Asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/element.h"
#include "worker/compute/cuda/scratch.h"

namespace gimbal::compute::cuda {

// Elements of `scratch` below, per range.
inline constexpr int64_t kReduceScratch = 128;

// sums[i] = sum of squares of x[begin[i]] ... x[end[i] - 1], in double
// precision; `begin` is divisible by 4. Bytes: 4 per element. FLOP: 2 per
// element, in fp64.
void SquareSums(cudaStream_t stream, int64_t ranges, const int64_t* begin,
                const int64_t* end, const float* x, double* sums,
                double* scratch);

// *sum = sum of n floats, in double precision, by one block: for short arrays.
void Sum(cudaStream_t stream, int64_t n, const float* x, double* sum);

// Sets *found to 1 when an element is infinite or NaN, and else leaves it.
// Bytes: 4 n.
void FindNonFinite(cudaStream_t stream, int64_t n, const float* x, int* found);

// sum[j] += scale * sum of x[:, j], of float or Bf16; `scratch` has
// ColumnSumScratch(cols) elements. Bytes: E rows cols.
// FLOP: rows cols.
template <typename T>
void ColumnSum(cudaStream_t stream, int64_t rows, int64_t cols, float scale,
               const T* x, float* sum, float* scratch);

}  // namespace gimbal::compute::cuda

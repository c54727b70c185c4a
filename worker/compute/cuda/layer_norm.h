// LayerNorm over rows, as worker/compute/layer_norm.h: rows and their gradients
// of float or Bf16; parameters, their gradients and statistics in fp32.
// Asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/element.h"
#include "worker/compute/cuda/scratch.h"

namespace gimbal::compute::cuda {

// Widest row, for those that packs of 16 bytes fill and for others.
constexpr int64_t kLayerNormMaxCols = 8192;
constexpr int64_t kLayerNormMaxOddCols = 2048;

// A warp per row. Bytes: 2 E rows cols + 8 rows. FLOP: 8 rows cols.
template <typename T>
void LayerNormForward(cudaStream_t stream, int64_t rows, int64_t cols,
                      float eps, const T* x, const float* w, const float* b,
                      T* y, float* mean, float* rstd);

// Replaces dy by y; dw, db and dx are added to; `scratch` has
// LayerNormScratch(cols) elements. One pass: a block keeps the
// parameter gradients of its rows in registers, and a second kernel adds up the
// blocks in order. Bytes: 5 E rows cols. FLOP: 18 rows cols.
template <typename T>
void LayerNormBackward(cudaStream_t stream, int64_t rows, int64_t cols,
                       const T* x, const float* w, const float* b,
                       const float* mean, const float* rstd, T* dy_to_y,
                       float* dw, float* db, T* dx, float* scratch);

}  // namespace gimbal::compute::cuda

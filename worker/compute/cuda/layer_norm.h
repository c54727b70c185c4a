// LayerNorm over rows, as worker/compute/layer_norm.h. Asynchronous on the
// stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gimbal::compute::cuda {

// Widest row, for cols divisible by 4 and for others.
constexpr int64_t kLayerNormMaxCols = 8192;
constexpr int64_t kLayerNormMaxOddCols = 2048;

// A warp per row. Bytes: 8 rows cols + 8 rows. FLOP: 8 rows cols.
void LayerNormForward(cudaStream_t stream, int64_t rows, int64_t cols,
                      float eps, const float* x, const float* w, const float* b,
                      float* y, float* mean, float* rstd);

// Elements of `scratch` below.
int64_t LayerNormScratch(int64_t cols);

// Replaces dy by y; dw, db and dx are added to. One pass: a block keeps the
// parameter gradients of its rows in registers, and a second kernel adds up the
// blocks in order. Bytes: 20 rows cols. FLOP: 18 rows cols.
void LayerNormBackward(cudaStream_t stream, int64_t rows, int64_t cols,
                       const float* x, const float* w, const float* b,
                       const float* mean, const float* rstd, float* dy_to_y,
                       float* dw, float* db, float* dx, float* scratch);

}  // namespace gimbal::compute::cuda

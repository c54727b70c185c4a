// Elements of fp32 that ops need beside their arguments, and between matrices
// of a batch. Free of CUDA, so that memory is planned where there is none.
#pragma once

#include <cstdint>

#include "worker/compute/attention.h"

namespace gimbal::compute::cuda {

// Blocks of the backward pass, and chunks of rows: a partial sum each.
inline constexpr int64_t kLayerNormBlocks = 264;
inline constexpr int64_t kColumnChunks = 64;

// Distance of matrices of `size` elements in memory of a batch.
constexpr int64_t BatchStride(int64_t size) { return (size + 63) / 64 * 64; }

inline int64_t LayerNormScratch(int64_t cols) {
  return kLayerNormBlocks * 2 * cols;
}

inline int64_t ColumnSumScratch(int64_t cols) { return kColumnChunks * cols; }

inline int64_t AttentionBackwardScratch(const AttentionShape& shape) {
  return shape.samples * shape.context * shape.heads;
}

}  // namespace gimbal::compute::cuda

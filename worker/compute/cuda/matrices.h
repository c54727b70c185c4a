// A batch of equally large matrices: where an arena has them, at offsets of
// their own, and in memory of the batch, one every `stride` elements; what lies
// in between means nothing. Asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/scratch.h"

namespace gimbal::compute::cuda {

struct MatrixBatch {
  int64_t count = 0;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;  // in memory of the batch
  // On the device: where the matrices begin in an arena.
  const int64_t* offsets = nullptr;
  // All of them are divisible by 4, and so is rows * cols.
  bool packs = false;

  int64_t size() const { return rows * cols; }
  // Elements of memory of the batch.
  int64_t elements() const { return count * stride; }
};

// out = the matrices of an arena. n = count rows cols. Bytes: 8 n.
void GatherMatrices(cudaStream_t stream, const MatrixBatch& batch,
                    const float* arena, float* out);

// new = keep old - step direction, where old and new are arenas (or the same)
// and the direction is a batch. Bytes: 12 n. FLOP: 3 n.
void ApplyMatrices(cudaStream_t stream, const MatrixBatch& batch, double keep,
                   double step, const float* old_weights,
                   const float* direction, float* new_weights);

// Divides the matrices of a batch by the roots of `squares`, one per matrix; by
// one that is not positive or not finite: they become 0. Bytes: 8 n. FLOP: n.
void Normalize(cudaStream_t stream, const MatrixBatch& batch,
               const double* squares, float* x);

}  // namespace gimbal::compute::cuda

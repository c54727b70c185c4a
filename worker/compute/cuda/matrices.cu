#include "worker/compute/cuda/for_each.cuh"
#include "worker/compute/cuda/matrices.h"

namespace gimbal::compute::cuda {
namespace {

// A thread has elements i ... i+W-1 of matrix blockIdx.y.
template <int W, typename Op>
__global__ void __launch_bounds__(kForEachThreads)
    ForEachMatrixKernel(int64_t size, Op op) {
  const int64_t i =
      (static_cast<int64_t>(blockIdx.x) * kForEachThreads + threadIdx.x) * W;
  if (i < size) op.template At<W>(blockIdx.y, i);
}

// `op` moves elements of the arena in packs where the batch allows it.
template <typename Op>
void ForEachMatrix(cudaStream_t stream, const MatrixBatch& batch,
                   const Op& op) {
  const auto count = static_cast<unsigned>(batch.count);
  if (batch.packs) {
    Launch(ForEachMatrixKernel<4, Op>,
           dim3(Blocks(batch.size(), 4 * kForEachThreads), count),
           kForEachThreads, 0, stream, batch.size(), op);
  } else {
    Launch(ForEachMatrixKernel<1, Op>,
           dim3(Blocks(batch.size(), kForEachThreads), count), kForEachThreads,
           0, stream, batch.size(), op);
  }
}

struct GatherOp {
  template <int W>
  __device__ void At(unsigned matrix, int64_t i) const {
    Store(out + matrix * stride + i, Load<W>(arena + offsets[matrix] + i));
  }

  int64_t stride;
  const int64_t* offsets;
  const float* arena;
  float* out;
};

struct ApplyOp {
  template <int W>
  __device__ void At(unsigned matrix, int64_t i) const {
    const int64_t at = offsets[matrix] + i;
    const Pack<W> w = Load<W>(old_weights + at),
                  d = Load<W>(direction + matrix * stride + i);
    Pack<W> out;
    for (int j = 0; j < W; ++j) out.at[j] = keep * w.at[j] - step * d.at[j];
    Store(new_weights + at, out);
  }

  int64_t stride;
  const int64_t* offsets;
  float keep, step;
  const float* old_weights;
  const float* direction;
  float* new_weights;
};

struct NormalizeOp {
  template <int W>
  __device__ void At(unsigned matrix, int64_t i) const {
    const double norm = sqrt(squares[matrix]);
    const bool usable = norm > 0 && norm <= 1.7976931348623157e308;
    const float factor = usable ? static_cast<float>(1 / norm) : 0.0f;
    Pack<W> pack = Load<W>(x + matrix * stride + i);
    for (int j = 0; j < W; ++j) {
      pack.at[j] = usable ? pack.at[j] * factor : 0.0f;
    }
    Store(x + matrix * stride + i, pack);
  }

  int64_t stride;
  const double* squares;
  float* x;
};

}  // namespace

void GatherMatrices(cudaStream_t stream, const MatrixBatch& batch,
                    const float* arena, float* out) {
  ForEachMatrix(stream, batch,
                GatherOp{batch.stride, batch.offsets, arena, out});
}

void ApplyMatrices(cudaStream_t stream, const MatrixBatch& batch, double keep,
                   double step, const float* old_weights,
                   const float* direction, float* new_weights) {
  ForEachMatrix(
      stream, batch,
      ApplyOp{batch.stride, batch.offsets, static_cast<float>(keep),
              static_cast<float>(step), old_weights, direction, new_weights});
}

void Normalize(cudaStream_t stream, const MatrixBatch& batch,
               const double* squares, float* x) {
  ForEachMatrix(stream, batch, NormalizeOp{batch.stride, squares, x});
}

}  // namespace gimbal::compute::cuda

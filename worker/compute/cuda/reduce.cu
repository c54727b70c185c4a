#include <algorithm>

#include "worker/compute/cuda/for_each.cuh"
#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/pack.cuh"
#include "worker/compute/cuda/reduce.h"

namespace gimbal::compute::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumnThreads = 32;
constexpr int kColumnRows = 8;  // of a block at a time

__global__ void __launch_bounds__(kThreads)
    PartialSquares(const int64_t* begin, const int64_t* end, const float* x,
                   double* partial) {
  __shared__ double shared[kThreads / kWarp];
  const int64_t last = end[blockIdx.y];
  double sum = 0;
  for (int64_t i =
           begin[blockIdx.y] +
           (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
       i < last; i += kReduceScratch * kThreads * 4) {
    if (i + 4 <= last) {
      const Pack<4> pack = Load<4>(x + i);
      for (int j = 0; j < 4; ++j) {
        sum += static_cast<double>(pack.at[j]) * pack.at[j];
      }
    } else {
      for (int64_t j = i; j < last; ++j) {
        sum += static_cast<double>(x[j]) * x[j];
      }
    }
  }
  sum = BlockSum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.y * kReduceScratch + blockIdx.x] = sum;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumKernel(int64_t n, const T* x, double* sums) {
  __shared__ double shared[kThreads / kWarp];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    sum += x[blockIdx.x * n + i];
  }
  sum = BlockSum(sum, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

struct FindOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> pack = Load<W>(x + i);
    for (int j = 0; j < W; ++j) {
      // Whoever writes writes the same.
      if (!(fabsf(pack.at[j]) <= 3.402823466e38f)) *found = 1;
    }
  }

  const float* x;
  int* found;
};

// A block adds up its chunk of rows for 32 packs of columns.
template <int W, typename T>
__global__ void __launch_bounds__(kColumnThreads* kColumnRows)
    PartialColumns(int64_t rows, int64_t cols, const T* x, float* partial) {
  __shared__ Pack<W> shared[kColumnRows][kColumnThreads];
  const int lane = static_cast<int>(threadIdx.x) % kColumnThreads;
  const int group = static_cast<int>(threadIdx.x) / kColumnThreads;
  const int64_t col =
      (static_cast<int64_t>(blockIdx.x) * kColumnThreads + lane) * W;
  Pack<W> sum = {};
  if (col < cols) {
    for (int64_t row = static_cast<int64_t>(blockIdx.y) * kColumnRows + group;
         row < rows; row += static_cast<int64_t>(gridDim.y) * kColumnRows) {
      const Pack<W> pack = Load<W>(x + row * cols + col);
      for (int j = 0; j < W; ++j) sum.at[j] += pack.at[j];
    }
  }
  shared[group][lane] = sum;
  __syncthreads();
  if (group != 0 || col >= cols) return;
  for (int i = 1; i < kColumnRows; ++i) {
    for (int j = 0; j < W; ++j) sum.at[j] += shared[i][lane].at[j];
  }
  Store(partial + blockIdx.y * cols + col, sum);
}

__global__ void AddColumns(int64_t chunks, int64_t cols, float scale,
                           const float* partial, float* sum) {
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (col >= cols) return;
  float total = 0;
  for (int64_t i = 0; i < chunks; ++i) total += partial[i * cols + col];
  sum[col] += scale * total;
}

}  // namespace

void SquareSums(cudaStream_t stream, int64_t ranges, const int64_t* begin,
                const int64_t* end, const float* x, double* sums,
                double* scratch) {
  const auto count = static_cast<unsigned>(ranges);
  Launch(PartialSquares, dim3(kReduceScratch, count), kThreads, 0, stream,
         begin, end, x, scratch);
  Launch(SumKernel<double>, count, kThreads, 0, stream, kReduceScratch, scratch,
         sums);
}

void Sum(cudaStream_t stream, int64_t n, const float* x, double* sum) {
  Launch(SumKernel<float>, 1, kThreads, 0, stream, n, x, sum);
}

void FindNonFinite(cudaStream_t stream, int64_t n, const float* x, int* found) {
  ForEach(stream, n, FindOp{x, found}, {x});
}

template <typename T>
void ColumnSum(cudaStream_t stream, int64_t rows, int64_t cols, float scale,
               const T* x, float* sum, float* scratch) {
  const bool wide = cols % kPack<T> == 0;
  const int64_t chunks =
      std::min<int64_t>(kColumnChunks, Blocks(rows, kColumnRows));
  Launch(wide ? PartialColumns<kPack<T>, T> : PartialColumns<1, T>,
         dim3(Blocks(cols, kColumnThreads * (wide ? kPack<T> : 1)),
              static_cast<unsigned>(chunks)),
         kColumnThreads * kColumnRows, 0, stream, rows, cols, x, scratch);
  Launch(AddColumns, Blocks(cols, kThreads), kThreads, 0, stream, chunks, cols,
         scale, scratch, sum);
}

template void ColumnSum(cudaStream_t, int64_t, int64_t, float, const float*,
                        float*, float*);
template void ColumnSum(cudaStream_t, int64_t, int64_t, float, const Bf16*,
                        float*, float*);

}  // namespace gimbal::compute::cuda

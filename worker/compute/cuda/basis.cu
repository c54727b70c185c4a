#include <cuda_fp16.h>

#include "worker/compute/cuda/basis.h"
#include "worker/compute/cuda/for_each.cuh"
#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = 8;  // of a tile at a time
constexpr float kLargest = 3.402823466e38f;

__device__ inline bool Finite(float x) { return fabsf(x) <= kLargest; }

// Tile (x, y) of a^T, through shared memory.
__global__ void __launch_bounds__(kTile* kTileRows)
    TransposeKernel(int64_t rows, int64_t cols, const float* a, float* out) {
  __shared__ float tile[kTile][kTile + 1];
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  const int64_t col = int64_t{blockIdx.x} * kTile,
                row = int64_t{blockIdx.y} * kTile;
  for (int i = first; i < kTile; i += kTileRows) {
    if (row + i < rows && col + lane < cols) {
      tile[i][lane] = a[(row + i) * cols + col + lane];
    }
  }
  __syncthreads();
  for (int i = first; i < kTile; i += kTileRows) {
    if (col + i < cols && row + lane < rows) {
      out[(col + i) * rows + row + lane] = tile[lane][i];
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    FiniteKernel(int64_t n, int64_t step, int64_t stride, const float* x,
                 int* finite) {
  __shared__ int shared[kThreads / kWarp];
  int bad = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    bad += !Finite(x[blockIdx.x * stride + i * step]);
  }
  bad = BlockSum(bad, shared);
  if (threadIdx.x == 0) finite[blockIdx.x] = bad == 0;
}

// Tile (x, y) with x <= y of the lower triangle, written there and, turned, to
// its mirror image.
__global__ void __launch_bounds__(kTile* kTileRows)
    MirrorKernel(int64_t n, int64_t stride, const int* finite,
                 const float* lower, float* whole) {
  if (blockIdx.x > blockIdx.y) return;
  __shared__ float tile[kTile][kTile + 1];
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  const int64_t col = int64_t{blockIdx.x} * kTile,
                row = int64_t{blockIdx.y} * kTile;
  const float* from = lower + blockIdx.z * stride;
  float* to = whole + blockIdx.z * stride;
  const bool good = finite[blockIdx.z] != 0;
  for (int i = first; i < kTile; i += kTileRows) {
    const int64_t r = row + i, c = col + lane;
    if (r >= n || c > r) continue;
    const float x = good ? from[r * n + c] : r == c ? 1.0f : 0.0f;
    tile[i][lane] = x;
    to[r * n + c] = x;
  }
  __syncthreads();
  for (int i = first; i < kTile; i += kTileRows) {
    const int64_t r = col + i, c = row + lane;
    if (c < n && r < c) to[r * n + c] = tile[lane][i];
  }
}

__global__ void __launch_bounds__(kThreads)
    ZeroKernel(int64_t size, int64_t stride, const int* finite, float* x) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size && finite[blockIdx.y] == 0) x[blockIdx.y * stride + i] = 0;
}

__global__ void __launch_bounds__(kThreads)
    RowDotsKernel(int64_t rows, int64_t cols, int64_t stride, const float* a,
                  const float* b, float* out) {
  const int64_t row =
      int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int64_t at = blockIdx.y * stride + row * cols;
  float sum = 0;
  for (int64_t i = threadIdx.x % kWarp; i < cols; i += kWarp) {
    sum += a[at + i] * b[at + i];
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) out[blockIdx.y * rows + row] = sum;
}

// How many keys come before that of the thread.
__global__ void __launch_bounds__(kThreads)
    RankKernel(int64_t n, const int* finite, const float* keys,
               int64_t order_stride, int* order) {
  __shared__ float shared[kThreads];
  const float* own = keys + blockIdx.y * n;
  const auto usable = [](float key) { return Finite(key) ? key : -kLargest; };
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const float key = i < n ? usable(own[i]) : 0;
  int64_t rank = 0;
  for (int64_t begin = 0; begin < n; begin += kThreads) {
    if (begin + threadIdx.x < n) {
      shared[threadIdx.x] = usable(own[begin + threadIdx.x]);
    }
    __syncthreads();
    const int64_t end = n - begin < kThreads ? n - begin : kThreads;
    for (int64_t j = 0; j < end; ++j) {
      const float other = shared[j];
      rank += other > key || (other == key && begin + j < i);
    }
    __syncthreads();
  }
  if (i >= n) return;
  int* to = order + blockIdx.y * order_stride;
  to[finite[blockIdx.y] != 0 ? rank : i] = static_cast<int>(i);
}

__global__ void __launch_bounds__(kThreads)
    CountKernel(int64_t n, int64_t order_stride, int* order) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) order[blockIdx.y * order_stride + i] = static_cast<int>(i);
}

// A warp per row, W elements per thread at a time.
template <int W>
__global__ void __launch_bounds__(kThreads)
    GatherRowsKernel(int64_t rows, int64_t cols, int64_t order_stride,
                     const int* order, int64_t from_stride, const float* from,
                     int64_t to_stride, float* to) {
  const int64_t row =
      int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int64_t source = order[blockIdx.y * order_stride + row];
  const float* in = from + blockIdx.y * from_stride + source * cols;
  float* out = to + blockIdx.y * to_stride + row * cols;
  for (int64_t i = threadIdx.x % kWarp * W; i < cols; i += kWarp * W) {
    Store(out + i, Load<W>(in + i));
  }
}

__global__ void __launch_bounds__(kThreads)
    PermuteKernel(int64_t rows, int64_t cols, int64_t stride,
                  int64_t order_stride, const int* order, const float* from,
                  float* to) {
  const int64_t row =
      int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int* of_row = order + blockIdx.y * order_stride;
  const int* of_col = of_row + rows;
  const float* in = from + blockIdx.y * stride + of_row[row] * cols;
  float* out = to + blockIdx.y * stride + row * cols;
  for (int64_t i = threadIdx.x % kWarp; i < cols; i += kWarp) {
    out[i] = in[of_col[i]];
  }
}

__global__ void __launch_bounds__(kThreads)
    RatioKernel(int64_t n, int64_t step, int64_t stride, const int* finite,
                const float* diagonal, const double* square_norms,
                float* health) {
  __shared__ double shared[kThreads / kWarp];
  const float* own = diagonal + blockIdx.x * stride;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    sum += static_cast<double>(own[i * step]) * own[i * step];
  }
  sum = BlockSum(sum, shared);
  if (threadIdx.x != 0) return;
  if (finite != nullptr && finite[blockIdx.x] == 0) return;
  const double norm = square_norms[blockIdx.x];
  const double off = norm > sum ? norm - sum : 0;
  const float ratio = norm > 0 && norm <= 1.7976931348623157e308
                          ? static_cast<float>(sqrt(off / norm))
                          : 0.0f;
  float* best = health + 2 * blockIdx.x;
  if (ratio > *best) *best = ratio;
}

__global__ void __launch_bounds__(kThreads)
    SelectKernel(int64_t n, int64_t stride, const int* finite,
                 const int* failed, bool reversed, const float* next,
                 float* bases) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n * n || finite[blockIdx.y] == 0) return;
  const int64_t row = i / n, col = i - row * n;
  float* to = bases + blockIdx.y * stride + i;
  if (failed != nullptr && failed[blockIdx.y] != 0) {
    *to = row == col ? 1.0f : 0.0f;
  } else {
    const int64_t source = reversed ? n - 1 - row : row;
    *to = next[blockIdx.y * stride + source * n + col];
  }
}

__global__ void __launch_bounds__(kThreads)
    ProbeKernel(int64_t n, int64_t stride, const float* z, const float* x,
                double* errors) {
  __shared__ double shared[kThreads / kWarp];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    const double e = static_cast<double>(z[blockIdx.x * stride + i]) - x[i];
    sum += e * e;
  }
  sum = BlockSum(sum, shared);
  if (threadIdx.x == 0) {
    errors[blockIdx.x] = sqrt(sum / static_cast<double>(n));
  }
}

__global__ void RaiseKernel(int64_t count, const double* errors,
                            float* health) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const auto error = static_cast<float>(errors[i]);
  if (error > health[2 * i]) health[2 * i] = error;
}

struct SquareOp {
  template <int W>
  __device__ void At(int64_t i) const {
    Pack<W> pack = Load<W>(x + i);
    for (int j = 0; j < W; ++j) pack.at[j] *= pack.at[j];
    Store(x + i, pack);
  }
  float* x;
};

struct ToHalfOp {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> pack = Load<W>(x + i);
    for (int j = 0; j < W; ++j) {
      out[i + j] = __half_as_ushort(__float2half_rn(pack.at[j]));
    }
  }
  const float* x;
  uint16_t* out;
};

struct FromHalfOp {
  template <int W>
  __device__ void At(int64_t i) const {
    Pack<W> pack;
    for (int j = 0; j < W; ++j) {
      pack.at[j] = __half2float(__ushort_as_half(x[i + j]));
    }
    Store(out + i, pack);
  }
  const uint16_t* x;
  float* out;
};

unsigned Count(int64_t count) { return static_cast<unsigned>(count); }

// Of a grid whose warps have a row each.
dim3 WarpPerRow(int64_t rows, int64_t count) {
  return {Blocks(rows, kThreads / kWarp), Count(count)};
}

}  // namespace

void Transpose(cudaStream_t stream, int64_t rows, int64_t cols, const float* a,
               float* out) {
  Launch(TransposeKernel, dim3(Blocks(cols, kTile), Blocks(rows, kTile)),
         kTile * kTileRows, 0, stream, rows, cols, a, out);
}

void FiniteFlags(cudaStream_t stream, int64_t count, int64_t n, int64_t step,
                 int64_t stride, const float* x, int* finite) {
  Launch(FiniteKernel, Count(count), kThreads, 0, stream, n, step, stride, x,
         finite);
}

void MirrorLower(cudaStream_t stream, int64_t count, int64_t n, int64_t stride,
                 const int* finite, const float* lower, float* whole) {
  const unsigned tiles = Blocks(n, kTile);
  Launch(MirrorKernel, dim3(tiles, tiles, Count(count)), kTile * kTileRows, 0,
         stream, n, stride, finite, lower, whole);
}

void ZeroUnlessFinite(cudaStream_t stream, int64_t count, int64_t size,
                      int64_t stride, const int* finite, float* x) {
  Launch(ZeroKernel, dim3(Blocks(size, kThreads), Count(count)), kThreads, 0,
         stream, size, stride, finite, x);
}

void RowDots(cudaStream_t stream, int64_t count, int64_t rows, int64_t cols,
             int64_t stride, const float* a, const float* b, float* out) {
  Launch(RowDotsKernel, WarpPerRow(rows, count), kThreads, 0, stream, rows,
         cols, stride, a, b, out);
}

void RankDescending(cudaStream_t stream, int64_t count, int64_t n,
                    const int* finite, const float* keys, int64_t order_stride,
                    int* order) {
  Launch(RankKernel, dim3(Blocks(n, kThreads), Count(count)), kThreads, 0,
         stream, n, finite, keys, order_stride, order);
}

void CountUp(cudaStream_t stream, int64_t count, int64_t n,
             int64_t order_stride, int* order) {
  Launch(CountKernel, dim3(Blocks(n, kThreads), Count(count)), kThreads, 0,
         stream, n, order_stride, order);
}

void GatherRows(cudaStream_t stream, int64_t count, int64_t rows, int64_t cols,
                int64_t order_stride, const int* order, int64_t from_stride,
                const float* from, int64_t to_stride, float* to) {
  Launch(cols % 4 == 0 ? GatherRowsKernel<4> : GatherRowsKernel<1>,
         WarpPerRow(rows, count), kThreads, 0, stream, rows, cols, order_stride,
         order, from_stride, from, to_stride, to);
}

void PermuteBoth(cudaStream_t stream, int64_t count, int64_t rows, int64_t cols,
                 int64_t stride, int64_t order_stride, const int* order,
                 const float* from, float* to) {
  Launch(PermuteKernel, WarpPerRow(rows, count), kThreads, 0, stream, rows,
         cols, stride, order_stride, order, from, to);
}

void OffdiagonalRatios(cudaStream_t stream, int64_t count, int64_t n,
                       int64_t step, int64_t stride, const int* finite,
                       const float* diagonal, const double* square_norms,
                       float* health) {
  Launch(RatioKernel, Count(count), kThreads, 0, stream, n, step, stride,
         finite, diagonal, square_norms, health);
}

void SelectBases(cudaStream_t stream, int64_t count, int64_t n, int64_t stride,
                 const int* finite, const int* failed, bool reversed,
                 const float* next, float* bases) {
  Launch(SelectKernel, dim3(Blocks(n * n, kThreads), Count(count)), kThreads, 0,
         stream, n, stride, finite, failed, reversed, next, bases);
}

void ProbeErrors(cudaStream_t stream, int64_t count, int64_t n, int64_t stride,
                 const float* z, const float* x, double* errors) {
  Launch(ProbeKernel, Count(count), kThreads, 0, stream, n, stride, z, x,
         errors);
}

void RaiseHealth(cudaStream_t stream, int64_t count, const double* errors,
                 float* health) {
  Launch(RaiseKernel, Blocks(count, kThreads), kThreads, 0, stream, count,
         errors, health);
}

void Square(cudaStream_t stream, int64_t n, float* x) {
  ForEach(stream, n, SquareOp{x}, {x});
}

void ToHalf(cudaStream_t stream, int64_t n, const float* x, uint16_t* out) {
  ForEach(stream, n, ToHalfOp{x, out}, {x});
}

void FromHalf(cudaStream_t stream, int64_t n, const uint16_t* x, float* out) {
  ForEach(stream, n, FromHalfOp{x, out}, {out});
}

}  // namespace gimbal::compute::cuda

#include "worker/compute/cuda/attention.h"
#include "worker/compute/cuda/attention_arrays.cuh"
#include "worker/compute/cuda/launch.h"

namespace gimbal::compute::cuda {
namespace {

// In fp32, outside tensor cores: a block's threads as a grid of 16 x 8: thread
// (y, x) has rows y + 16 i of a tile of scores and their columns x + 8 j, so
// that a row belongs to 8 neighbouring lanes.
constexpr int kThreadRows = 16;
constexpr int kThreadCols = 8;
constexpr int kThreads = kThreadRows * kThreadCols;
constexpr float kLowest = -3.4e38f;

// Sizes of tiles for heads of at most D; static shared memory holds them.
template <int D>
struct Sizes {
  static constexpr int kForwardRows = D <= 64 ? 64 : 32;
  static constexpr int kForwardCols = D <= 64 ? 32 : 16;
  static constexpr int kBackward = D <= 64 ? 32 : 16;  // rows and columns
  static constexpr int kStride = D + 4;                // no bank conflicts
};

using Arrays = AttentionArrays<float>;

// Rows `first` ... of the sample as a tile; zeros beyond the sample's end and
// the head's width.
template <int D, int rows>
__device__ void LoadTile(const Arrays& a, int64_t first, const float* source,
                         int64_t stride, float (*tile)[D + 4]) {
  constexpr int W = kPack<float>, kPacks = D / W;
  for (int i = threadIdx.x; i < rows * kPacks; i += kThreads) {
    const int row = i / kPacks, col = i % kPacks * W;
    Pack<W> pack = {};
    if (first + row < a.context) {
      const float* from = source + row * stride + col;
      if (a.wide && col < a.head_dim) {
        pack = Load<W>(from);
      } else if (!a.wide) {
        for (int j = 0; j < W && col + j < a.head_dim; ++j) {
          pack.at[j] = Load<1>(from + j).at[0];
        }
      }
    }
    Store(&tile[row][col], pack);
  }
}

// sum[i][j] = row i of a times row j of b, for the thread's rows and columns.
template <int D, int R, int C>
__device__ void Products(const float (*a)[D + 4], const float (*b)[D + 4],
                         float (&sum)[R][C]) {
  const int y = threadIdx.x / kThreadCols, x = threadIdx.x % kThreadCols;
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < C; ++j) sum[i][j] = 0;
  }
#pragma unroll 4
  for (int k = 0; k < D; k += 4) {
    Pack<4> left[R], right[C];
#pragma unroll
    for (int i = 0; i < R; ++i) left[i] = Load<4>(&a[y + kThreadRows * i][k]);
#pragma unroll
    for (int j = 0; j < C; ++j) right[j] = Load<4>(&b[x + kThreadCols * j][k]);
#pragma unroll
    for (int i = 0; i < R; ++i) {
#pragma unroll
      for (int j = 0; j < C; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j] += left[i].at[e] * right[j].at[e];
      }
    }
  }
}

// The thread's columns of a row of D: packs x + 8 g.
template <int D>
constexpr int kGroups = D / 4 / kThreadCols;

__device__ inline int GroupColumn(int group) {
  return (static_cast<int>(threadIdx.x) % kThreadCols + kThreadCols * group) *
         4;
}

template <int D>
__device__ inline void AddScaled(float factor, const float* row,
                                 Pack<4> (&sum)[kGroups<D>]) {
#pragma unroll
  for (int g = 0; g < kGroups<D>; ++g) {
    const Pack<4> pack = Load<4>(row + GroupColumn(g));
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[g].at[e] += factor * pack.at[e];
  }
}

template <int D>
__device__ inline void StoreRow(const Arrays& a, float factor,
                                const Pack<4> (&sum)[kGroups<D>], float* row) {
#pragma unroll
  for (int g = 0; g < kGroups<D>; ++g) {
    Pack<4> pack = sum[g];
#pragma unroll
    for (int e = 0; e < 4; ++e) pack.at[e] *= factor;
    const int col = GroupColumn(g);
    if (a.wide && col < a.head_dim) {
      Store(row + col, pack);
    } else if (!a.wide) {
      for (int e = 0; e < 4 && col + e < a.head_dim; ++e) {
        Store(row + col + e, Pack<1>{pack.at[e]});
      }
    }
  }
}

// A block per tile of rows; the longest rows first.
template <int D>
__global__ void __launch_bounds__(kThreads, 3) Forward(Arrays a) {
  constexpr int kRows = Sizes<D>::kForwardRows, kCols = Sizes<D>::kForwardCols;
  constexpr int R = kRows / kThreadRows, C = kCols / kThreadCols;
  __shared__ __align__(16) float q[kRows][Sizes<D>::kStride];
  __shared__ __align__(16) float k[kCols][Sizes<D>::kStride];
  __shared__ __align__(16) float v[kCols][Sizes<D>::kStride];
  __shared__ float p[kRows][kCols + 1];
  const int y = threadIdx.x / kThreadCols, x = threadIdx.x % kThreadCols;
  const int64_t row = (gridDim.x - 1 - blockIdx.x) * int64_t{kRows};
  LoadTile<D, kRows>(a, row, a.qkv + a.InQkv(row, 0), 3 * a.c(), q);
  float max[R], sum[R];
  Pack<4> out[R][kGroups<D>] = {};
  for (int i = 0; i < R; ++i) {
    max[i] = kLowest;
    sum[i] = 0;
  }
  const int64_t end = row + kRows < a.context ? row + kRows : a.context;
  for (int64_t col = 0; col < end; col += kCols) {
    __syncthreads();
    LoadTile<D, kCols>(a, col, a.qkv + a.InQkv(col, 1), 3 * a.c(), k);
    LoadTile<D, kCols>(a, col, a.qkv + a.InQkv(col, 2), 3 * a.c(), v);
    __syncthreads();
    float s[R][C];
    Products<D, R, C>(q, k, s);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int64_t at = row + y + kThreadRows * i;
      float larger = max[i];
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const bool visible = col + x + kThreadCols * j <= at;
        s[i][j] = visible ? a.scale * s[i][j] : kLowest;
        larger = fmaxf(larger, s[i][j]);
      }
      larger = WarpMax<kThreadCols>(larger);
      float of_tile = 0;
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const float e = s[i][j] == kLowest ? 0 : expf(s[i][j] - larger);
        of_tile += e;
        p[y + kThreadRows * i][x + kThreadCols * j] = e;
      }
      const float factor = expf(max[i] - larger);
      max[i] = larger;
      sum[i] = factor * sum[i] + WarpSum<kThreadCols>(of_tile);
#pragma unroll
      for (int g = 0; g < kGroups<D>; ++g) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[i][g].at[e] *= factor;
      }
    }
    __syncwarp();  // a row of p stays within a warp
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        AddScaled<D>(p[y + kThreadRows * i][j], v[j], out[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int64_t at = row + y + kThreadRows * i;
    if (at >= a.context) continue;
    StoreRow<D>(a, 1 / sum[i], out[i], a.out + a.InOut(at));
    if (x == 0) a.out_lse[a.InLse(at)] = max[i] + logf(sum[i]);
  }
}

// delta = sum(dout o), a warp per row and head.
__global__ void __launch_bounds__(kThreads)
    Delta(int64_t rows_and_heads, int64_t head_dim, const float* o,
          const float* dout, float* delta) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) +
                     threadIdx.x / kWarp;
  if (at >= rows_and_heads) return;
  float sum = 0;
  for (int64_t i = threadIdx.x % kWarp; i < head_dim; i += kWarp) {
    sum += o[at * head_dim + i] * dout[at * head_dim + i];
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) delta[at] = sum;
}

template <int D>
struct BackwardTiles {
  static constexpr int kSize = Sizes<D>::kBackward;
  __align__(16) float q[kSize][Sizes<D>::kStride];
  __align__(16) float dout[kSize][Sizes<D>::kStride];
  __align__(16) float k[kSize][Sizes<D>::kStride];
  __align__(16) float v[kSize][Sizes<D>::kStride];
  float p[kSize][kSize + 1];
  float ds[kSize][kSize + 1];
};

template <int D>
__device__ void LoadRows(const Arrays& a, int64_t row, BackwardTiles<D>& t) {
  constexpr int kSize = BackwardTiles<D>::kSize;
  LoadTile<D, kSize>(a, row, a.qkv + a.InQkv(row, 0), 3 * a.c(), t.q);
  LoadTile<D, kSize>(a, row, a.dout + a.InOut(row), a.c(), t.dout);
}

template <int D>
__device__ void LoadColumns(const Arrays& a, int64_t col, BackwardTiles<D>& t) {
  constexpr int kSize = BackwardTiles<D>::kSize;
  LoadTile<D, kSize>(a, col, a.qkv + a.InQkv(col, 1), 3 * a.c(), t.k);
  LoadTile<D, kSize>(a, col, a.qkv + a.InQkv(col, 2), 3 * a.c(), t.v);
}

// Probabilities of the tile and the gradient of its unscaled scores.
template <int D>
__device__ void FillScores(const Arrays& a, int64_t row, int64_t col,
                           BackwardTiles<D>& t) {
  constexpr int kSize = BackwardTiles<D>::kSize;
  constexpr int R = kSize / kThreadRows, C = kSize / kThreadCols;
  const int y = threadIdx.x / kThreadCols, x = threadIdx.x % kThreadCols;
  float s[R][C], dp[R][C];
  Products<D, R, C>(t.q, t.k, s);
  Products<D, R, C>(t.dout, t.v, dp);
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int64_t at = row + y + kThreadRows * i;
    const bool inside = at < a.context;
    const float lse = inside ? a.lse[a.InLse(at)] : 0;
    const float delta = inside ? a.delta[a.InLse(at)] : 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const bool visible = inside && col + x + kThreadCols * j <= at;
      const float p = visible ? expf(a.scale * s[i][j] - lse) : 0;
      t.p[y + kThreadRows * i][x + kThreadCols * j] = p;
      t.ds[y + kThreadRows * i][x + kThreadCols * j] =
          a.scale * p * (dp[i][j] - delta);
    }
  }
}

// dk and dv: a block per tile of columns, over the rows from it on.
template <int D>
__global__ void __launch_bounds__(kThreads, 3) BackwardKeys(Arrays a) {
  constexpr int kSize = BackwardTiles<D>::kSize;
  constexpr int R = kSize / kThreadRows;
  __shared__ BackwardTiles<D> t;
  const int y = threadIdx.x / kThreadCols;
  const int64_t col = blockIdx.x * int64_t{kSize};
  LoadColumns<D>(a, col, t);
  Pack<4> dk[R][kGroups<D>] = {}, dv[R][kGroups<D>] = {};
  for (int64_t row = col; row < a.context; row += kSize) {
    __syncthreads();
    LoadRows<D>(a, row, t);
    __syncthreads();
    FillScores<D>(a, row, col, t);
    __syncthreads();
    for (int j = 0; j < kSize; ++j) {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        AddScaled<D>(t.p[j][y + kThreadRows * i], t.dout[j], dv[i]);
        AddScaled<D>(t.ds[j][y + kThreadRows * i], t.q[j], dk[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int64_t at = col + y + kThreadRows * i;
    if (at >= a.context) continue;
    StoreRow<D>(a, 1, dk[i], a.out + a.InQkv(at, 1));
    StoreRow<D>(a, 1, dv[i], a.out + a.InQkv(at, 2));
  }
}

// dq: a block per tile of rows, over the columns up to it; the longest first.
template <int D>
__global__ void __launch_bounds__(kThreads, 3) BackwardQueries(Arrays a) {
  constexpr int kSize = BackwardTiles<D>::kSize;
  constexpr int R = kSize / kThreadRows;
  __shared__ BackwardTiles<D> t;
  const int y = threadIdx.x / kThreadCols;
  const int64_t row = (gridDim.x - 1 - blockIdx.x) * int64_t{kSize};
  LoadRows<D>(a, row, t);
  Pack<4> dq[R][kGroups<D>] = {};
  for (int64_t col = 0; col <= row; col += kSize) {
    __syncthreads();
    LoadColumns<D>(a, col, t);
    __syncthreads();
    FillScores<D>(a, row, col, t);
    __syncwarp();  // a row of ds stays within a warp
    for (int j = 0; j < kSize; ++j) {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        AddScaled<D>(t.ds[y + kThreadRows * i][j], t.k[j], dq[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int64_t at = row + y + kThreadRows * i;
    if (at < a.context) StoreRow<D>(a, 1, dq[i], a.out + a.InQkv(at, 0));
  }
}

template <int D>
void LaunchForward(cudaStream_t stream, const AttentionShape& shape,
                   const Arrays& arrays) {
  Launch(Forward<D>, AttentionGrid(shape, Sizes<D>::kForwardRows), kThreads, 0,
         stream, arrays);
}

template <int D>
void LaunchBackward(cudaStream_t stream, const AttentionShape& shape,
                    const Arrays& arrays) {
  const dim3 grid = AttentionGrid(shape, Sizes<D>::kBackward);
  Launch(BackwardKeys<D>, grid, kThreads, 0, stream, arrays);
  Launch(BackwardQueries<D>, grid, kThreads, 0, stream, arrays);
}

}  // namespace

void AttentionForward(cudaStream_t stream, const AttentionShape& shape,
                      const float* qkv, float* o, float* lse) {
  const Arrays arrays = ForwardArrays(shape, qkv, o, lse);
  (shape.head_dim <= 32   ? LaunchForward<32>
   : shape.head_dim <= 64 ? LaunchForward<64>
                          : LaunchForward<128>)(stream, shape, arrays);
}

void AttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                       const float* qkv, const float* o, const float* lse,
                       const float* dout, float* dqkv, float* scratch) {
  const int64_t rows_and_heads = AttentionBackwardScratch(shape);
  Launch(Delta, Blocks(rows_and_heads, kThreads / kWarp), kThreads, 0, stream,
         rows_and_heads, shape.head_dim, o, dout, scratch);
  const Arrays arrays = BackwardArrays(shape, qkv, o, lse, dout, dqkv, scratch);
  (shape.head_dim <= 32   ? LaunchBackward<32>
   : shape.head_dim <= 64 ? LaunchBackward<64>
                          : LaunchBackward<128>)(stream, shape, arrays);
}

}  // namespace gimbal::compute::cuda

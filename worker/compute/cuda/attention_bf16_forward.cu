#include "worker/compute/cuda/attention.h"
#include "worker/compute/cuda/attention_tiles.cuh"
#include "worker/compute/cuda/launch.h"

namespace gimbal::compute::cuda {
namespace {

// What a warp has of its rows: of a row the largest score so far, the lane's
// part of the sum of exp(score - largest), and the values' sum with those
// weights.
template <int D>
struct Rows {
  static constexpr int M = kSixteens<D>;
  float max[M][2], sum[M][2];
  SumRows<D> out[M];
};

// Scores to exp(scale (score - the row's largest)).
template <int D, int N>
__device__ inline void Weigh(float scale, Rows<D>& rows,
                             float (&scores)[N][kSixteens<D>][2][4]) {
#pragma unroll
  for (int i = 0; i < 2 * kSixteens<D>; ++i) {
    const int m = i / 2, half = i % 2;
    float largest = rows.max[m][half];
#pragma unroll
    for (int j = 0; j < 4 * N; ++j) {
      largest = fmaxf(largest, scores[j / 4][m][j / 2 % 2][2 * half + j % 2]);
    }
    largest = WarpMax<4>(largest);
    const float factor = Exp2(scale * (rows.max[m][half] - largest));
    const float shift = scale * largest;
    rows.max[m][half] = largest;
    float sum = factor * rows.sum[m][half];
#pragma unroll
    for (int j = 0; j < 4 * N; ++j) {
      float& score = scores[j / 4][m][j / 2 % 2][2 * half + j % 2];
      score = Exp2(scale * score - shift);
      sum += score;
    }
    rows.sum[m][half] = sum;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      rows.out[m][d][2 * half] *= factor;
      rows.out[m][d][2 * half + 1] *= factor;
    }
  }
}

// The warp's rows, from `row` to `last`, meet the tile of keys and values that
// begins at `col`. `diagonal`: some of them do not see all of it.
template <int D, bool diagonal>
__device__ inline void MeetTile(float scale, int row, int last, int col,
                                const Bf16* queries,
                                const Bf16 (&keys)[2][kTileRows<D> * D],
                                Rows<D>& rows) {
  constexpr int N = kTileRows<D> / 16;
  float scores[N][kSixteens<D>][2][4] = {};
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t left[kSixteens<D>][4];
#pragma unroll
    for (int m = 0; m < kSixteens<D>; ++m) {
      LoadMatrices(left[m], MatrixRow<D>(queries, 16 * m, 16 * k));
    }
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (!diagonal || col + 16 * n <= last) {
        AddScores<D>(left, keys[0], 16 * n, 16 * k, scores[n]);
      }
    }
  }
  if (diagonal) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      Hide<kSixteens<D>>(row, col + 16 * n, last, scores[n]);
    }
  }
  Weigh<D, N>(scale, rows, scores);
  uint32_t p[N][kSixteens<D>][4];
#pragma unroll
  for (int i = 0; i < N * kSixteens<D>; ++i) {
    const int n = i / kSixteens<D>, m = i % kSixteens<D>;
    Round(scores[n][m], p[n][m]);
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (!diagonal || col + 16 * n <= last) {
      AddProducts<D>(p[n], keys[1], 16 * n, rows.out);
    }
  }
}

template <int D>
__device__ inline void BeginWithZeros(Rows<D>& rows) {
#pragma unroll
  for (int m = 0; m < kSixteens<D>; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.max[m][half] = -INFINITY;
      rows.sum[m][half] = 0;
    }
#pragma unroll
    for (int i = 0; i < D / 2; ++i) rows.out[m][i / 4][i % 4] = 0;
  }
}

template <int D>
__device__ inline void Finish(const Bf16Arrays& a, int row, Bf16* tile,
                              Rows<D>& rows) {
#pragma unroll
  for (int m = 0; m < kSixteens<D>; ++m) {
    const int first = row + 16 * m;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = WarpSum<4>(rows.sum[m][half]);
      factor[half] = 1 / sum;
      const int at = first + LaneRow(half);
      if (LaneColumn() == 0 && at < a.context) {
        a.out_lse[a.InLse(at)] = a.scale * rows.max[m][half] + logf(sum);
      }
    }
    StoreSums<D>(a, rows.out[m], factor, tile + 16 * m * D, first,
                 a.out + a.InOut(first), a.c());
  }
}

// A block per kQueryRows rows; the longest rows first.
template <int D>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    ForwardBf16(Bf16Arrays a) {
  constexpr int kTile = kTileRows<D>, kRows = kQueryRows<D>;
  static_assert(kRows % kTile == 0, "tiles end where the diagonal begins");
  __shared__ __align__(128) TilePairs<D> pairs;
  __shared__ __align__(128) Bf16 queries[kRows * D];
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int in_block = WarpInBlock() * 16 * kSixteens<D>;
  const int row = first + in_block;
  const int last = min(row + 16 * kSixteens<D>, a.context) - 1;
  BeginRows<D, kRows>(a, first, a.qkv + a.InQkv(first, 0), 3 * a.c(), queries);
  BeginKeys<D>(a, 0, pairs[0]);
  Rows<D> rows;
  BeginWithZeros<D>(rows);
  const float scale = kLog2E * a.scale;
  const int end = min(first + kRows, a.context);
  int col = 0, now = 0;
  for (; col < first; col += kTile, now ^= 1) {
    NextKeys<D>(a, col, end, now, pairs);
    MeetTile<D, false>(scale, row, last, col, queries + in_block * D,
                       pairs[now], rows);
  }
  for (; col < end; col += kTile, now ^= 1) {
    NextKeys<D>(a, col, end, now, pairs);
    if (row > last || col > last) continue;
    MeetTile<D, true>(scale, row, last, col, queries + in_block * D, pairs[now],
                      rows);
  }
  if (row <= last) Finish<D>(a, row, queries + in_block * D, rows);
}

template <int D>
void LaunchForward(cudaStream_t stream, const AttentionShape& shape,
                   const Bf16Arrays& arrays) {
  Launch(ForwardBf16<D>, AttentionGrid(shape, kQueryRows<D>), kAttentionThreads,
         0, stream, arrays);
}

}  // namespace

void AttentionForward(cudaStream_t stream, const AttentionShape& shape,
                      const Bf16* qkv, Bf16* o, float* lse) {
  const Bf16Arrays arrays = ForwardArrays(shape, qkv, o, lse);
  (shape.head_dim <= 32   ? LaunchForward<32>
   : shape.head_dim <= 64 ? LaunchForward<64>
                          : LaunchForward<128>)(stream, shape, arrays);
}

}  // namespace gimbal::compute::cuda

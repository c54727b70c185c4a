// dq of attention in bf16.
#pragma once

#include "worker/compute/cuda/attention_tiles.cuh"

namespace gimbal::compute::cuda {
namespace {

// A block per kQueryRows rows, over the columns up to them; the longest
// first.
template <int D>
struct Queries {
  static constexpr int M = kSixteens<D>;
  LeftRows<D> q[M], dout[M];
  Statistics of[M][2];
  SumRows<D> dq[M];
};

template <int D>
__device__ inline void MeetKeys(float scale, int row, int last, int col,
                                const Bf16 (&keys)[2][kTileRows<D> * D],
                                Queries<D>& rows) {
  constexpr int M = kSixteens<D>;
#pragma unroll 1
  for (int n = 0; n < kTileRows<D> / 16; ++n) {
    const int at = col + 16 * n;
    if (at > last) break;
    float scores[M][2][4], dp[M][2][4];
    Scores<D>(rows.q, keys[0], 16 * n, scores);
    if (at + 15 > row) Hide<M>(row, at, last, scores);
    Scores<D>(rows.dout, keys[1], 16 * n, dp);
    uint32_t ds[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        ToGradient(scale, rows.of[m][i % 4 / 2], scores[m][i / 4][i % 4],
                   dp[m][i / 4][i % 4]);
      }
      Round(dp[m], ds[m]);
    }
    AddProducts<D>(ds, keys[0], 16 * n, rows.dq);
  }
}

template <int D>
__device__ inline void LoadQueries(const Bf16Arrays& a, int row, int in_block,
                                   TilePairs<D>& pairs, Queries<D>& rows) {
#pragma unroll
  for (int m = 0; m < kSixteens<D>; ++m) {
    LoadLeft<D>(pairs[0][0], in_block + 16 * m, rows.q[m]);
    LoadLeft<D>(pairs[1][0], in_block + 16 * m, rows.dout[m]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row + 16 * m + LaneRow(half);
      const bool inside = at < a.context;
      rows.of[m][half] = {inside ? kLog2E * a.lse[a.InLse(at)] : 0,
                          inside ? a.delta[a.InLse(at)] : 0};
    }
#pragma unroll
    for (int i = 0; i < D / 2; ++i) rows.dq[m][i / 4][i % 4] = 0;
  }
}

template <int D>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    QueriesBf16(Bf16Arrays a) {
  constexpr int kTile = kTileRows<D>, kRows = kQueryRows<D>;
  static_assert(kRows == 2 * kTile, "these rows fill a pair of tiles");
  __shared__ __align__(128) TilePairs<D> pairs;
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int in_block = WarpInBlock() * 16 * kSixteens<D>;
  const int row = first + in_block;
  const int last = min(row + 16 * kSixteens<D>, a.context) - 1;
  BeginRows<D, kRows>(a, first, a.qkv + a.InQkv(first, 0), 3 * a.c(),
                      pairs[0][0]);
  BeginRows<D, kRows>(a, first, a.dout + a.InOut(first), a.c(), pairs[1][0]);
  WaitForCopies();
  __syncthreads();
  Queries<D> rows;
  LoadQueries<D>(a, row, in_block, pairs, rows);
  __syncthreads();
  BeginKeys<D>(a, 0, pairs[0]);
  const float scale = kLog2E * a.scale;
  const int end = min(first + kRows, a.context);
  int now = 0;
  for (int col = 0; col < end; col += kTile, now ^= 1) {
    NextKeys<D>(a, col, end, now, pairs);
    if (row <= last) MeetKeys<D>(scale, row, last, col, pairs[now], rows);
  }
  if (row > last) return;
  const float factor[2] = {a.scale, a.scale};
#pragma unroll
  for (int m = 0; m < kSixteens<D>; ++m) {
    StoreSums<D>(a, rows.dq[m], factor, pairs[now][0] + (in_block + 16 * m) * D,
                 row + 16 * m, a.out + a.InQkv(row + 16 * m, 0), 3 * a.c());
  }
}

}  // namespace
}  // namespace gimbal::compute::cuda

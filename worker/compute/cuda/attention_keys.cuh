// dk and dv of attention in bf16.
#pragma once

#include "worker/compute/cuda/attention_tiles.cuh"

namespace gimbal::compute::cuda {
namespace {

// Both, or in two launches one each: in heads of 128 there are no registers for
// the sums of both, so probabilities are made once more.
//
// A block per 64 columns, 16 of them a warp's, over the rows from them on.
// Scores are transposed: their rows are keys.
constexpr int kKeys = 16 * kAttentionWarps;

template <int D>
struct Keys {
  LeftRows<D> k[1], v[1];
  SumRows<D> dk[1], dv[1];
};

// A pair of tiles of queries and output gradients, and the lse and delta of
// their rows.
template <int D>
using RowStatistics = float[2][kTileRows<D>];

// Scores of 16 keys from `col` on to those of queries from `row` on: -infinity
// where a query does not see a key.
__device__ inline void HideTransposed(int col, int row,
                                      float (&scores)[1][2][4]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int query = row + i / 4 * 8 + LaneColumn() + i % 2;
    const bool visible = col + LaneRow(i % 4 / 2) <= query;
    if (!visible) scores[0][i / 4][i % 4] = -INFINITY;
  }
}

template <int D, bool with_dk, bool with_dv>
__device__ inline void MeetQueries(float scale, int col, int row, int context,
                                   const Bf16 (&queries)[2][kTileRows<D> * D],
                                   const RowStatistics<D>& of, Keys<D>& keys) {
#pragma unroll 1
  for (int n = 0; n < kTileRows<D> / 16; ++n) {
    const int at = row + 16 * n;
    if (at + 15 < col || at >= context) continue;
    float scores[1][2][4], dp[1][2][4] = {};
    Scores<D>(keys.k, queries[0], 16 * n, scores);
    if (at < col + 15) HideTransposed(col, at, scores);
    if (with_dk) Scores<D>(keys.v, queries[1], 16 * n, dp);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int in_tile = 16 * n + i / 4 * 8 + LaneColumn() + i % 2;
      ToGradient(scale, {kLog2E * of[0][in_tile], of[1][in_tile]},
                 scores[0][i / 4][i % 4], dp[0][i / 4][i % 4]);
    }
    uint32_t p[1][4], ds[1][4];
    Round(scores[0], p[0]);
    Round(dp[0], ds[0]);
    if (with_dv) AddProducts<D>(p, queries[1], 16 * n, keys.dv);
    if (with_dk) AddProducts<D>(ds, queries[0], 16 * n, keys.dk);
  }
}

template <int D>
__device__ inline void BeginQueries(const Bf16Arrays& a, int row,
                                    Bf16 (&pair)[2][kTileRows<D> * D],
                                    RowStatistics<D>& of) {
  constexpr int kRows = kTileRows<D>;
  BeginRows<D, kRows>(a, row, a.qkv + a.InQkv(row, 0), 3 * a.c(), pair[0]);
  BeginRows<D, kRows>(a, row, a.dout + a.InOut(row), a.c(), pair[1]);
  const int in_tile = static_cast<int>(threadIdx.x);
  if (in_tile < kRows) {
    const int64_t at = a.InLse(row + in_tile);
    const bool beyond = row + in_tile >= a.context;
    BeginCopy(&of[0][in_tile], a.lse + at, beyond);
    BeginCopy(&of[1][in_tile], a.delta + at, beyond);
  }
}

template <int D>
__device__ inline void NextQueries(const Bf16Arrays& a, int row, int now,
                                   TilePairs<D>& pairs,
                                   RowStatistics<D> (&of)[2]) {
  WaitForCopies();
  __syncthreads();  // that the other pair is done with
  if (row + kTileRows<D> < a.context) {
    BeginQueries<D>(a, row + kTileRows<D>, pairs[now ^ 1], of[now ^ 1]);
  }
}

template <int D, bool with_dk, bool with_dv>
__global__ void __launch_bounds__(kAttentionThreads, D <= 64 ? 3 : 2)
    KeysBf16(Bf16Arrays a) {
  constexpr int kTile = kTileRows<D>;
  static_assert(kKeys <= 2 * kTile, "these rows fit into a pair of tiles");
  __shared__ __align__(128) TilePairs<D> pairs;
  __shared__ RowStatistics<D> of[2];
  const int first = static_cast<int>(blockIdx.x) * kKeys;
  const int in_block = WarpInBlock() * 16, col = first + in_block;
  BeginRows<D, kKeys>(a, first, a.qkv + a.InQkv(first, 1), 3 * a.c(),
                      pairs[0][0]);
  BeginRows<D, kKeys>(a, first, a.qkv + a.InQkv(first, 2), 3 * a.c(),
                      pairs[1][0]);
  WaitForCopies();
  __syncthreads();
  Keys<D> keys;
  LoadLeft<D>(pairs[0][0], in_block, keys.k[0]);
  if (with_dk) LoadLeft<D>(pairs[1][0], in_block, keys.v[0]);
#pragma unroll
  for (int i = 0; i < D / 2; ++i) {
    keys.dk[0][i / 4][i % 4] = keys.dv[0][i / 4][i % 4] = 0;
  }
  __syncthreads();
  BeginQueries<D>(a, first, pairs[0], of[0]);
  const float scale = kLog2E * a.scale;
  int now = 0;
  for (int row = first; row < a.context; row += kTile, now ^= 1) {
    NextQueries<D>(a, row, now, pairs, of);
    MeetQueries<D, with_dk, with_dv>(scale, col, row, a.context, pairs[now],
                                     of[now], keys);
  }
  if (col >= a.context) return;
  const float scales[2] = {a.scale, a.scale}, ones[2] = {1, 1};
  Bf16* const tile = pairs[now][0] + in_block * D;
  if (with_dk) {
    StoreSums<D>(a, keys.dk[0], scales, tile, col, a.out + a.InQkv(col, 1),
                 3 * a.c());
  }
  if (with_dv) {
    StoreSums<D>(a, keys.dv[0], ones, tile, col, a.out + a.InQkv(col, 2),
                 3 * a.c());
  }
}

}  // namespace
}  // namespace gimbal::compute::cuda

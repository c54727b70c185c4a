// Attention on tensor cores: what the kernels of bf16 share. Heads of at most D
// are filled up with zeros in shared memory.
//
// A warp has rows of its own, 16 at a time, and their sums in registers. It
// meets tiles of other rows that the block brings into shared memory, two at a
// time (keys and values, or queries and gradients) while the two before are
// worked on. Scores never leave registers: in the layout of a product's sums
// they are, rounded to bf16, the left factor of the next product.
#pragma once

#include "worker/compute/cuda/attention_arrays.cuh"
#include "worker/compute/cuda/mma.cuh"

namespace gimbal::compute::cuda {

using Bf16Arrays = AttentionArrays<Bf16>;

constexpr int kAttentionWarps = 4;
constexpr int kAttentionThreads = kAttentionWarps * kWarp;
constexpr float kLog2E = 1.44269504f;

// Rows of a tile, and what two pairs of tiles take: at most 32 KiB.
template <int D>
constexpr int kTileRows = D <= 64 ? 64 : 32;
template <int D>
using TilePairs = Bf16[2][2][kTileRows<D> * D];

// Sixteens of query rows that a warp has. Two halve what it reads of shared
// memory per product; in heads of 128 there are no registers for them.
template <int D>
constexpr int kSixteens = D <= 64 ? 2 : 1;
template <int D>
constexpr int kQueryRows = 16 * kAttentionWarps* kSixteens<D>;

// 16 rows of D numbers as left factors, and sums of as many.
template <int D>
using LeftRows = uint32_t[D / 16][4];
template <int D>
using SumRows = float[D / 8][4];

// Of the 16 rows of a sum a lane has these two, and in them columns 2 t and
// 2 t + 1 of every 8.
__device__ inline int LaneRow(int half) {
  return static_cast<int>(threadIdx.x) % kWarp / 4 + 8 * half;
}
__device__ inline int LaneColumn() {
  return static_cast<int>(threadIdx.x) % 4 * 2;
}

__device__ inline int WarpInBlock() {
  return static_cast<int>(threadIdx.x) / kWarp;
}

// Where a number of a tile is. Packs of 8 change places within a row, so that 8
// rows of one column of packs are in different banks.
template <int D>
__device__ inline int Place(int row, int col) {
  const int turn = D >= 64 ? row & 7 : row >> 1 & 3;
  return row * D + ((col >> 3 ^ turn) << 3) + (col & 7);
}

__device__ inline Bf16Pack<8> Some(const Bf16* from, int count) {
  Bf16Pack<8> pack;
  for (int j = 0; j < 8; ++j) {
    pack.at[j] = j < count ? from[j] : __float2bfloat16_rn(0);
  }
  return pack;
}

// Begins to bring `rows` rows from row `first` of the sample on into a tile,
// from `source`, where that row is; zeros beyond the sample's end.
template <int D, int rows>
__device__ inline void BeginRows(const Bf16Arrays& a, int first,
                                 const Bf16* source, int64_t stride,
                                 Bf16* tile) {
  constexpr int kPacks = D / 8, kStep = kAttentionThreads / kPacks;
  static_assert(rows % kStep == 0);
  const int col = static_cast<int>(threadIdx.x) % kPacks * 8;
  const int begin = static_cast<int>(threadIdx.x) / kPacks;
  // Within a tile 32 bits do, and take half the registers.
  const auto step = static_cast<unsigned>(kStep * stride);
  unsigned from = static_cast<unsigned>(begin * stride) + col;
  const bool in_head = col < a.head_dim;
#pragma unroll
  for (int row = begin; row < begin + rows; row += kStep) {
    const bool inside = in_head && first + row < a.context;
    Bf16* const to = tile + Place<D>(row, col);
    if (a.wide) {
      BeginCopy(to, source + from, !inside);
    } else {
      *reinterpret_cast<Bf16Pack<8>*>(to) =
          Some(source + from, inside ? a.head_dim - col : 0);
    }
    from += step;
  }
}

// Begins to bring keys and values from row `col` on.
template <int D>
__device__ inline void BeginKeys(const Bf16Arrays& a, int col,
                                 Bf16 (&pair)[2][kTileRows<D> * D]) {
  constexpr int kRows = kTileRows<D>;
  BeginRows<D, kRows>(a, col, a.qkv + a.InQkv(col, 1), 3 * a.c(), pair[0]);
  BeginRows<D, kRows>(a, col, a.qkv + a.InQkv(col, 2), 3 * a.c(), pair[1]);
}

// Those at `col` are there afterwards, and the next ones on their way.
template <int D>
__device__ inline void NextKeys(const Bf16Arrays& a, int col, int end, int now,
                                TilePairs<D>& pairs) {
  WaitForCopies();
  __syncthreads();  // that the other pair is done with
  if (col + kTileRows<D> < end) {
    BeginKeys<D>(a, col + kTileRows<D>, pairs[now ^ 1]);
  }
}

// 16 x 16 numbers of a tile as four matrices: rows 0 and 8, then 8 columns on.
template <int D>
__device__ inline const Bf16* MatrixRow(const Bf16* tile, int row, int col) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return tile + Place<D>(row + lane % 16, col + lane / 16 * 8);
}

template <int D>
__device__ inline void LoadLeft(const Bf16* tile, int row, LeftRows<D>& left) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    LoadMatrices(left[k], MatrixRow<D>(tile, row, 16 * k));
  }
}

// sum[m][j] += rows of left[m] times rows 8 j ... of the tile, from `row` on,
// in the 16 columns from `col` on.
template <int D, int M>
__device__ inline void AddScores(const uint32_t (&left)[M][4], const Bf16* tile,
                                 int row, int col, float (&sum)[M][2][4]) {
  uint32_t word[4];
  LoadMatrices(word, MatrixRow<D>(tile, row, col));
  const uint32_t right[2][2] = {{word[0], word[2]}, {word[1], word[3]}};
#pragma unroll
  for (int m = 0; m < M; ++m) {
    MultiplyAdd(sum[m][0], left[m], right[0]);
    MultiplyAdd(sum[m][1], left[m], right[1]);
  }
}

// sum[m][j] = rows of left[m] times rows 8 j ... of the tile, from `row` on.
template <int D, int M>
__device__ inline void Scores(const LeftRows<D> (&left)[M], const Bf16* tile,
                              int row, float (&sum)[M][2][4]) {
#pragma unroll
  for (int i = 0; i < 8 * M; ++i) sum[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t word[M][4];
#pragma unroll
    for (int i = 0; i < 4 * M; ++i) word[i / 4][i % 4] = left[i / 4][k][i % 4];
    AddScores<D>(word, tile, row, 16 * k, sum);
  }
}

// Scores of rows from `row` on and 16 columns from `col` on: -infinity where a
// row does not see a column, and beyond column `last`.
template <int M>
__device__ inline void Hide(int row, int col, int last,
                            float (&scores)[M][2][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = min(row + 16 * m + LaneRow(i % 4 / 2), last);
      const bool visible = col + i / 4 * 8 + LaneColumn() + i % 2 <= at;
      if (!visible) scores[m][i / 4][i % 4] = -INFINITY;
    }
  }
}

// Rounded to bf16 they are a left factor.
__device__ inline void Round(const float (&scores)[2][4], uint32_t (&left)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* const pair = &scores[i / 2][i % 2 * 2];
    left[i] = PairOf(pair[0], pair[1]);
  }
}

// sum[m] += left[m] times the tile's 16 rows from `row` on.
template <int D, int M>
__device__ inline void AddProducts(const uint32_t (&left)[M][4],
                                   const Bf16* tile, int row,
                                   SumRows<D> (&sum)[M]) {
#pragma unroll
  for (int n = 0; n < D / 16; ++n) {
    uint32_t word[4];
    LoadTransposed(word, MatrixRow<D>(tile, row, 16 * n));
    const uint32_t right[2][2] = {{word[0], word[1]}, {word[2], word[3]}};
#pragma unroll
    for (int m = 0; m < M; ++m) {
      MultiplyAdd(sum[m][2 * n], left[m], right[0]);
      MultiplyAdd(sum[m][2 * n + 1], left[m], right[1]);
    }
  }
}

// What backward knows of a row of scores.
struct Statistics {
  float lse, delta;  // lse times log2(e)
};

// A score to its probability, and dp to the score's gradient but for the scale.
__device__ inline void ToGradient(float scale, const Statistics& row,
                                  float& score, float& dp) {
  score = Exp2(scale * score - row.lse);
  dp = score * (dp - row.delta);
}

// Stores the warp's 16 rows of sums, those of a lane times factor[half], which
// begin at row `first` of the sample, to `to`, through 16 rows of a tile that
// only the warp uses.
template <int D>
__device__ inline void StoreSums(const Bf16Arrays& a, const SumRows<D>& sum,
                                 const float (&factor)[2], Bf16* tile,
                                 int first, Bf16* to, int64_t stride) {
  __syncwarp();
#pragma unroll
  for (int i = 0; i < D / 4; ++i) {
    const int half = i % 2, col = i / 2 * 8 + LaneColumn();
    const float* const pair = &sum[i / 2][2 * half];
    *reinterpret_cast<__nv_bfloat162*>(tile + Place<D>(LaneRow(half), col)) =
        __floats2bfloat162_rn(factor[half] * pair[0], factor[half] * pair[1]);
  }
  __syncwarp();
  constexpr int kPacks = D / 8;
#pragma unroll
  for (int i = 0; i < 16 * kPacks; i += kWarp) {
    const int pack = i + static_cast<int>(threadIdx.x) % kWarp;
    const int row = pack / kPacks, col = pack % kPacks * 8;
    if (first + row >= a.context || col >= a.head_dim) continue;
    const Bf16* const from = tile + Place<D>(row, col);
    Bf16* const at = to + row * stride + col;
    if (a.wide) {
      *reinterpret_cast<Bf16Pack<8>*>(at) =
          *reinterpret_cast<const Bf16Pack<8>*>(from);
    } else {
      for (int j = 0; j < 8 && col + j < a.head_dim; ++j) at[j] = from[j];
    }
  }
}

}  // namespace gimbal::compute::cuda

// Causal multi-head self-attention: for each sample and head,
//   P = softmax(Q K^T / sqrt(head_dim)) with P[i, j] = 0 for j > i,  O = P V.
//
// Shapes, with N = samples * context and C = heads * head_dim:
//   qkv, dqkv [N, 3C]: q, k, v side by side; head h has columns
//     h * head_dim ... of each third
//   o, dout [N, C];  lse [N, heads]: log-sum-exp of the scaled scores
// Backward makes the probabilities again from lse, so they are never kept.
// Rows go in tiles and a tile stops at its last row's column, which saves
// nearly half of the work.
#pragma once

#include <cstdint>

namespace gimbal::compute {

struct AttentionShape {
  int64_t samples = 0;
  int64_t context = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
};

// Rows of a tile: few save work beyond the diagonal, many run GEMM faster.
inline constexpr int64_t kAttentionTileRows = 64;

// Elements of `scratch` below.
int64_t AttentionScratch(const AttentionShape& shape);

template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* o, T* lse,
                      T* scratch);

template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* o,
                       const T* lse, const T* dout, T* dqkv, T* scratch);

// Kernels for the functions above. A tile holds rows first_row ... first_row +
// rows - 1 of the scores and their columns 0 ... first_row + rows - 1; it is
// contiguous.
template <typename T>
struct AttentionKernels {
  // Scores to exp(scale * score - row maximum), 0 beyond the diagonal; writes
  // 1 / row sum to inverse[rows] and lse[i * stride].
  void (*softmax)(int64_t rows, int64_t first_row, T scale, T* scores,
                  T* inverse, T* lse, int64_t stride);
  // o[i, :] *= inverse[i].
  void (*scale_rows)(int64_t rows, int64_t cols, const T* inverse, T* o,
                     int64_t ldo);
  // Scores to probabilities P, and dP to the gradient of the unscaled scores,
  // scale * P (dP - sum(dout o)), both 0 beyond the diagonal.
  void (*backward)(int64_t rows, int64_t first_row, int64_t head_dim, T scale,
                   const T* o, const T* dout, int64_t ldo, const T* lse,
                   int64_t stride, T* scores_to_p, T* dp_to_ds);
};

}  // namespace gimbal::compute

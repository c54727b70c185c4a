// Token plus learned position embedding, as worker/compute/embedding.h:
// parameters and their gradients in fp32, the rest in T, float or Bf16.
// Asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "worker/compute/cuda/element.h"

namespace gimbal::compute::cuda {

// Bytes: (8 + E) rows cols, of which 4 come from wte. FLOP: rows cols.
template <typename T>
void EmbeddingForward(cudaStream_t stream, int64_t samples, int64_t context,
                      int64_t cols, const int32_t* tokens, const float* wte,
                      const float* wpe, T* y);

// Where each token occurs: `groups` tokens, of which the i-th is token[i] and
// stands at rows row[begin[i]] ... row[begin[i + 1] - 1], in ascending order.
// Made on the host from the ids, so that gradients are added up in row order
// without atomics.
struct TokenGroups {
  std::vector<int32_t> token, begin, row;
  int64_t groups() const { return static_cast<int64_t>(token.size()); }
};
TokenGroups GroupTokens(int64_t rows, int64_t vocab, const int32_t* tokens);

// dwte and dwpe are added to; `token`, `begin` and `row` are on the device.
// Bytes: 2 E rows cols, and 8 cols per token and position. FLOP: 2 rows cols.
template <typename T>
void EmbeddingBackward(cudaStream_t stream, int64_t samples, int64_t context,
                       int64_t cols, int64_t groups, const int32_t* token,
                       const int32_t* begin, const int32_t* row, const T* dy,
                       float* dwte, float* dwpe);

}  // namespace gimbal::compute::cuda

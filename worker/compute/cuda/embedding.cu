#include <utility>

#include "worker/compute/cuda/embedding.h"
#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {
namespace {

constexpr int kThreads = 128;

template <int W, typename T>
__global__ void Forward(int64_t packs, int64_t context, int64_t cols,
                        const int32_t* tokens, const float* wte,
                        const float* wpe, T* y) {
  const int64_t pack =
      static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const int64_t row = pack * W / cols, col = pack * W % cols;
  Pack<W> out = Load<W>(wte + tokens[row] * cols + col);
  const Pack<W> position = Load<W>(wpe + row % context * cols + col);
  for (int j = 0; j < W; ++j) out.at[j] += position.at[j];
  Store(y + row * cols + col, out);
}

// A block per token and kThreads packs of columns.
template <int W, typename T>
__global__ void BackwardTokens(int64_t cols, const int32_t* token,
                               const int32_t* begin, const int32_t* row,
                               const T* dy, float* dwte) {
  const int64_t col =
      (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * W;
  if (col >= cols) return;
  float* out = dwte + token[blockIdx.x] * cols + col;
  Pack<W> sum = Load<W>(out);
  const int32_t end = begin[blockIdx.x + 1];
#pragma unroll 4
  for (int32_t i = begin[blockIdx.x]; i < end; ++i) {
    const Pack<W> d = Load<W>(dy + row[i] * cols + col);
    for (int j = 0; j < W; ++j) sum.at[j] += d.at[j];
  }
  Store(out, sum);
}

// A block per position and kThreads packs of columns.
template <int W, typename T>
__global__ void BackwardPositions(int64_t samples, int64_t context,
                                  int64_t cols, const T* dy, float* dwpe) {
  const int64_t col =
      (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * W;
  if (col >= cols) return;
  float* out = dwpe + blockIdx.x * cols + col;
  Pack<W> sum = Load<W>(out);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const Pack<W> d =
        Load<W>(dy + (sample * context + blockIdx.x) * cols + col);
    for (int j = 0; j < W; ++j) sum.at[j] += d.at[j];
  }
  Store(out, sum);
}

}  // namespace

template <typename T>
void EmbeddingForward(cudaStream_t stream, int64_t samples, int64_t context,
                      int64_t cols, const int32_t* tokens, const float* wte,
                      const float* wpe, T* y) {
  const int width = cols % kPack<T> == 0 ? kPack<T> : 1;
  const int64_t packs = samples * context * cols / width;
  Launch(width > 1 ? Forward<kPack<T>, T> : Forward<1, T>,
         Blocks(packs, kThreads), kThreads, 0, stream, packs, context, cols,
         tokens, wte, wpe, y);
}

TokenGroups GroupTokens(int64_t rows, int64_t vocab, const int32_t* tokens) {
  std::vector<int32_t> count(static_cast<size_t>(vocab), 0);
  for (int64_t i = 0; i < rows; ++i) ++count[static_cast<size_t>(tokens[i])];
  TokenGroups groups;
  int32_t end = 0;
  for (int64_t token = 0; token < vocab; ++token) {
    const int32_t of_token =
        std::exchange(count[static_cast<size_t>(token)], end);
    if (of_token == 0) continue;
    groups.token.push_back(static_cast<int32_t>(token));
    groups.begin.push_back(end);
    end += of_token;
  }
  groups.begin.push_back(end);
  groups.row.resize(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    int32_t& next = count[static_cast<size_t>(tokens[i])];
    groups.row[static_cast<size_t>(next++)] = static_cast<int32_t>(i);
  }
  return groups;
}

template <typename T>
void EmbeddingBackward(cudaStream_t stream, int64_t samples, int64_t context,
                       int64_t cols, int64_t groups, const int32_t* token,
                       const int32_t* begin, const int32_t* row, const T* dy,
                       float* dwte, float* dwpe) {
  const bool wide = cols % kPack<T> == 0;
  const unsigned across = Blocks(cols, kThreads * (wide ? kPack<T> : 1));
  Launch(wide ? BackwardTokens<kPack<T>, T> : BackwardTokens<1, T>,
         dim3(static_cast<unsigned>(groups), across), kThreads, 0, stream, cols,
         token, begin, row, dy, dwte);
  Launch(wide ? BackwardPositions<kPack<T>, T> : BackwardPositions<1, T>,
         dim3(static_cast<unsigned>(context), across), kThreads, 0, stream,
         samples, context, cols, dy, dwpe);
}

template void EmbeddingForward(cudaStream_t, int64_t, int64_t, int64_t,
                               const int32_t*, const float*, const float*,
                               float*);
template void EmbeddingForward(cudaStream_t, int64_t, int64_t, int64_t,
                               const int32_t*, const float*, const float*,
                               Bf16*);
template void EmbeddingBackward(cudaStream_t, int64_t, int64_t, int64_t,
                                int64_t, const int32_t*, const int32_t*,
                                const int32_t*, const float*, float*, float*);
template void EmbeddingBackward(cudaStream_t, int64_t, int64_t, int64_t,
                                int64_t, const int32_t*, const int32_t*,
                                const int32_t*, const Bf16*, float*, float*);

}  // namespace gimbal::compute::cuda

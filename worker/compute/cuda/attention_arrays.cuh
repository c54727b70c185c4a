// Where attention's kernels find the vectors of a head; blockIdx.y is the
// sample and the head.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "worker/compute/attention.h"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {

// Arrays of [N, stride] rows. Sizes are of 32 bits: kernels have few registers
// left.
template <typename T>
struct AttentionArrays {
  int context, heads, head_dim;
  float scale;
  bool wide;  // rows may be moved in packs
  const T* qkv;
  const T* o;
  const float* lse;
  const T* dout;
  const float* delta;
  T* out;  // o or dqkv
  float* out_lse;

  __device__ int c() const { return heads * head_dim; }
  __device__ int head() const { return static_cast<int>(blockIdx.y) % heads; }
  // First row of the block's sample.
  __device__ int64_t row() const {
    return int64_t{static_cast<int>(blockIdx.y) / heads} * context;
  }
  // q, k or v (part 0, 1, 2) of the head at a row of the sample.
  __device__ int64_t InQkv(int64_t row_of_sample, int part) const {
    return (row() + row_of_sample) * 3 * c() + part * c() + head() * head_dim;
  }
  __device__ int64_t InOut(int64_t row_of_sample) const {
    return (row() + row_of_sample) * c() + head() * head_dim;
  }
  __device__ int64_t InLse(int64_t row_of_sample) const {
    return (row() + row_of_sample) * heads + head();
  }
};

template <typename T>
AttentionArrays<T> ForwardArrays(const AttentionShape& shape, const T* qkv,
                                 T* o, float* lse) {
  AttentionArrays<T> arrays = {};
  arrays.context = static_cast<int>(shape.context);
  arrays.heads = static_cast<int>(shape.heads);
  arrays.head_dim = static_cast<int>(shape.head_dim);
  arrays.scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  arrays.wide = shape.head_dim % kPack<T> == 0 && Aligned(qkv) && Aligned(o);
  arrays.qkv = qkv;
  arrays.out = o;
  arrays.out_lse = lse;
  return arrays;
}

template <typename T>
AttentionArrays<T> BackwardArrays(const AttentionShape& shape, const T* qkv,
                                  const T* o, const float* lse, const T* dout,
                                  T* dqkv, float* delta) {
  AttentionArrays<T> arrays = ForwardArrays<T>(shape, qkv, dqkv, nullptr);
  arrays.wide = arrays.wide && Aligned(o) && Aligned(dout);
  arrays.o = o;
  arrays.lse = lse;
  arrays.dout = dout;
  arrays.delta = delta;
  return arrays;
}

// Blocks of `rows` rows each, for every sample and head.
inline dim3 AttentionGrid(const AttentionShape& shape, int64_t rows) {
  return {Blocks(shape.context, rows),
          static_cast<unsigned>(shape.samples * shape.heads)};
}

}  // namespace gimbal::compute::cuda

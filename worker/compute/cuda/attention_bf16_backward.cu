#include "worker/compute/cuda/attention.h"
#include "worker/compute/cuda/attention_keys.cuh"
#include "worker/compute/cuda/attention_queries.cuh"
#include "worker/compute/cuda/launch.h"

namespace gimbal::compute::cuda {
namespace {

// delta = sum(dout o), a lane per 8 numbers of a row and head.
template <int D>
__global__ void __launch_bounds__(kAttentionThreads)
    DeltaBf16(int64_t rows_and_heads, Bf16Arrays a, float* delta) {
  constexpr int kLanes = D / 8;
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * kAttentionThreads + threadIdx.x;
  const int64_t at = thread / kLanes, col = thread % kLanes * 8;
  float sum = 0;
  if (at < rows_and_heads && col < a.head_dim) {
    const Bf16 *o = a.o + at * a.head_dim + col,
               *dout = a.dout + at * a.head_dim + col;
    if (a.wide) {
      const Pack<8> left = Load<8>(o), right = Load<8>(dout);
      for (int j = 0; j < 8; ++j) sum += left.at[j] * right.at[j];
    } else {
      for (int j = 0; j < 8 && col + j < a.head_dim; ++j) {
        sum += __bfloat162float(o[j]) * __bfloat162float(dout[j]);
      }
    }
  }
  sum = WarpSum<kLanes>(sum);
  if (at < rows_and_heads && col == 0) delta[at] = sum;
}

template <int D>
void LaunchBackward(cudaStream_t stream, const AttentionShape& shape,
                    const Bf16Arrays& arrays, float* delta) {
  const int64_t rows_and_heads = AttentionBackwardScratch(shape);
  Launch(DeltaBf16<D>, Blocks(rows_and_heads * (D / 8), kAttentionThreads),
         kAttentionThreads, 0, stream, rows_and_heads, arrays, delta);
  const auto launch_keys = [&](void (*kernel)(Bf16Arrays)) {
    Launch(kernel, AttentionGrid(shape, kKeys), kAttentionThreads, 0, stream,
           arrays);
  };
  if constexpr (D <= 64) {
    launch_keys(KeysBf16<D, true, true>);
  } else {
    launch_keys(KeysBf16<D, true, false>);
    launch_keys(KeysBf16<D, false, true>);
  }
  Launch(QueriesBf16<D>, AttentionGrid(shape, kQueryRows<D>), kAttentionThreads,
         0, stream, arrays);
}

}  // namespace

void AttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                       const Bf16* qkv, const Bf16* o, const float* lse,
                       const Bf16* dout, Bf16* dqkv, float* scratch) {
  const Bf16Arrays arrays =
      BackwardArrays(shape, qkv, o, lse, dout, dqkv, scratch);
  const auto launch = shape.head_dim <= 32   ? LaunchBackward<32>
                      : shape.head_dim <= 64 ? LaunchBackward<64>
                                             : LaunchBackward<128>;
  launch(stream, shape, arrays, scratch);
}

}  // namespace gimbal::compute::cuda

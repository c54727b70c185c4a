#include "worker/compute/cuda/convert.h"
#include "worker/compute/cuda/for_each.cuh"

namespace gimbal::compute::cuda {
namespace {

template <typename From, typename To>
struct ConvertOp {
  template <int W>
  __device__ void At(int64_t i) const {
    Store(y + i, Load<W>(x + i));
  }

  const From* x;
  To* y;
};

}  // namespace

void ToBf16(cudaStream_t stream, int64_t n, const float* x, Bf16* y) {
  ForEach<8>(stream, n, ConvertOp<float, Bf16>{x, y}, {x, y});
}

void FromBf16(cudaStream_t stream, int64_t n, const Bf16* x, float* y) {
  ForEach<8>(stream, n, ConvertOp<Bf16, float>{x, y}, {x, y});
}

}  // namespace gimbal::compute::cuda

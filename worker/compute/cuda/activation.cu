#include "worker/compute/cuda/activation.h"
#include "worker/compute/cuda/for_each.cuh"

namespace gimbal::compute::cuda {
namespace {

using worker::Activation;

struct ValueAndSlope {
  float y;
  float slope;
};

// 0.5 (1 + tanh(z)) is the logistic function of 2 z, which cancels nowhere. An
// exponential that overflows makes it 0, as it should be.
struct GeluTanh {
  static constexpr float kA = -1.59576912160573071f;  // -2 sqrt(2/pi)
  static constexpr float kB = 0.044715f;

  static __device__ float Logistic(float x) {
    return 1 / (1 + expf(kA * x * (1 + kB * x * x)));
  }
  static __device__ float Value(float x) { return x * Logistic(x); }
  static __device__ ValueAndSlope Both(float x) {
    const float s = Logistic(x);
    const float dz = -kA * (1 + 3 * kB * x * x);  // of 2z
    return {x * s, s + x * s * (1 - s) * dz};
  }
};

struct GeluErf {
  static __device__ float Cdf(float x) {
    return 0.5f * erfcf(-0.70710678118654752f * x);
  }
  static __device__ float Value(float x) { return x * Cdf(x); }
  static __device__ ValueAndSlope Both(float x) {
    constexpr float kDensity = 0.39894228040143268f;
    const float cdf = Cdf(x);
    return {x * cdf, cdf + x * kDensity * expf(-0.5f * x * x)};
  }
};

struct Relu {
  static __device__ float Value(float x) { return x > 0 ? x : 0; }
  static __device__ ValueAndSlope Both(float x) {
    return {x > 0 ? x : 0, x > 0 ? 1.0f : 0.0f};
  }
};

template <typename F, typename T>
struct ForwardOp {
  template <int W>
  __device__ void At(int64_t i) const {
    Pack<W> pack = Load<W>(x + i);
    for (int j = 0; j < W; ++j) pack.at[j] = F::Value(pack.at[j]);
    Store(y + i, pack);
  }

  const T* x;
  T* y;
};

template <typename F, typename T>
struct BackwardOp {
  template <int W>
  __device__ void At(int64_t i) const {
    Pack<W> value = Load<W>(x_to_y + i), slope = Load<W>(dy_to_dx + i);
    for (int j = 0; j < W; ++j) {
      const ValueAndSlope at = F::Both(value.at[j]);
      value.at[j] = at.y;
      slope.at[j] *= at.slope;
    }
    Store(x_to_y + i, value);
    Store(dy_to_dx + i, slope);
  }

  T* x_to_y;
  T* dy_to_dx;
};

template <typename T, template <typename, typename> typename Op,
          typename... Arrays>
void Run(cudaStream_t stream, Activation function, int64_t n,
         Arrays*... arrays) {
  constexpr int W = kPack<T>;
  switch (function) {
    case Activation::kGeluTanh:
      return ForEach<W>(stream, n, Op<GeluTanh, T>{arrays...}, {arrays...});
    case Activation::kGeluErf:
      return ForEach<W>(stream, n, Op<GeluErf, T>{arrays...}, {arrays...});
    case Activation::kRelu:
      return ForEach<W>(stream, n, Op<Relu, T>{arrays...}, {arrays...});
  }
}

}  // namespace

template <typename T>
void ActivationForward(cudaStream_t stream, Activation function, int64_t n,
                       const T* x, T* y) {
  Run<T, ForwardOp>(stream, function, n, x, y);
}

template <typename T>
void ActivationBackward(cudaStream_t stream, Activation function, int64_t n,
                        T* x_to_y, T* dy_to_dx) {
  Run<T, BackwardOp>(stream, function, n, x_to_y, dy_to_dx);
}

template void ActivationForward(cudaStream_t, Activation, int64_t, const float*,
                                float*);
template void ActivationForward(cudaStream_t, Activation, int64_t, const Bf16*,
                                Bf16*);
template void ActivationBackward(cudaStream_t, Activation, int64_t, float*,
                                 float*);
template void ActivationBackward(cudaStream_t, Activation, int64_t, Bf16*,
                                 Bf16*);

}  // namespace gimbal::compute::cuda

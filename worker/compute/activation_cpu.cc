#include "worker/compute/activation.h"
#include "worker/compute/isa.h"
#include "worker/compute/vector_math.h"

namespace gimbal::compute {
namespace {

template <typename T>
struct ValueAndSlope {
  T y;
  T slope;
};

// 0.5 (1 + tanh(z)) is the logistic function of 2 z, which cancels nowhere.
template <typename T>
struct GeluTanh {
  static constexpr T kA = static_cast<T>(-1.59576912160573071176);  // -2s
  static constexpr T kB = static_cast<T>(0.044715);

  static T Value(T x) { return x / (1 + Exp(kA * x * (1 + kB * x * x))); }
  static ValueAndSlope<T> Both(T x) {
    const T e = Exp(kA * x * (1 + kB * x * x));  // exp(-2z)
    const T s = 1 / (1 + e);
    const T dz = -kA * (1 + 3 * kB * x * x);  // of 2z
    const T y = x * s;
    return {y, s + y * (e * s) * dz};
  }
};

template <typename T>
struct GeluErf {
  static constexpr T kDensity = static_cast<T>(0.39894228040143267794);

  static T Value(T x) { return x * NormalCdf(x, Exp(T(-0.5) * x * x)); }
  static ValueAndSlope<T> Both(T x) {
    const T density = Exp(T(-0.5) * x * x);
    const T cdf = NormalCdf(x, density);
    return {x * cdf, cdf + x * kDensity * density};
  }
};

template <typename T>
struct Relu {
  static T Value(T x) { return x > 0 ? x : 0; }
  static ValueAndSlope<T> Both(T x) {
    return {x > 0 ? x : 0, x > 0 ? T{1} : T{0}};
  }
};

template <typename T, template <typename> typename F>
void Forward(int64_t n, const T* x, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = F<T>::Value(x[i]);
}

template <typename T, template <typename> typename F>
void Backward(int64_t n, T* x_to_y, T* dy_to_dx) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const ValueAndSlope<T> at = F<T>::Both(x_to_y[i]);
    x_to_y[i] = at.y;
    dy_to_dx[i] *= at.slope;
  }
}

template <typename T>
constexpr Activations<T> kKernels = {
    {Forward<T, GeluTanh>, Backward<T, GeluTanh>},
    {Forward<T, GeluErf>, Backward<T, GeluErf>},
    {Forward<T, Relu>, Backward<T, Relu>}};

}  // namespace

template <>
const Activations<float>& Variant<Activations<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const Activations<double>& Variant<Activations<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute

// Activation of the MLP, element by element:
//   gelu_tanh  0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//   gelu_erf   0.5 x (1 + erf(x / sqrt(2)))
//   relu       max(x, 0), with derivative 0 at 0
#pragma once

#include <cstdint>

namespace gimbal::compute {

template <typename T>
struct ActivationFunction {
  void (*forward)(int64_t n, const T* x, T* y);
  // Replaces x by y, which the weight gradient behind it needs and which costs
  // little beside the derivative, and dy by dx. So only x has to be kept.
  void (*backward)(int64_t n, T* x_to_y, T* dy_to_dx);
};

template <typename T>
struct Activations {
  ActivationFunction<T> gelu_tanh;
  ActivationFunction<T> gelu_erf;
  ActivationFunction<T> relu;
};

}  // namespace gimbal::compute

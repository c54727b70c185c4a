#include "worker/compute/embedding.h"
#include "worker/compute/isa.h"

namespace gimbal::compute {
namespace {

template <typename T>
void Forward(int64_t samples, int64_t context, int64_t cols,
             const int32_t* tokens, const T* wte, const T* wpe, T* y) {
  for (int64_t row = 0; row < samples * context; ++row) {
    const T* token = wte + tokens[row] * cols;
    const T* position = wpe + row % context * cols;
    T* out = y + row * cols;
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) out[j] = token[j] + position[j];
  }
}

template <typename T>
void Backward(int64_t samples, int64_t context, int64_t cols,
              const int32_t* tokens, const T* dy, T* dwte, T* dwpe) {
  for (int64_t row = 0; row < samples * context; ++row) {
    T* token = dwte + tokens[row] * cols;
    T* position = dwpe + row % context * cols;
    const T* d = dy + row * cols;
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) {
      token[j] += d[j];
      position[j] += d[j];
    }
  }
}

template <typename T>
constexpr Embedding<T> kKernels = {Forward<T>, Backward<T>};

}  // namespace

template <>
const Embedding<float>& Variant<Embedding<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const Embedding<double>& Variant<Embedding<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute

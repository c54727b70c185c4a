#include <stddef.h>

#include "worker/compute/isa.h"
#include "worker/compute/linear.h"

namespace gimbal::compute {
namespace {

template <typename T>
void Fill(int64_t rows, int64_t cols, const T* bias, const T* addend, T* y) {
  for (int64_t row = 0; row < rows; ++row) {
    T* out = y + row * cols;
    const T* in = addend == nullptr ? nullptr : addend + row * cols;
    if (in == nullptr) {
      __builtin_memcpy(out, bias, static_cast<size_t>(cols) * sizeof(T));
    } else if (bias == nullptr) {
      __builtin_memcpy(out, in, static_cast<size_t>(cols) * sizeof(T));
    } else {
#pragma omp simd
      for (int64_t j = 0; j < cols; ++j) out[j] = bias[j] + in[j];
    }
  }
}

template <typename T>
void ColumnSum(int64_t rows, int64_t cols, const T* x, T* sum) {
  int64_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    const T* r = x + row * cols;
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) {
      sum[j] += ((r[j] + r[j + cols]) + (r[j + 2 * cols] + r[j + 3 * cols])) +
                ((r[j + 4 * cols] + r[j + 5 * cols]) +
                 (r[j + 6 * cols] + r[j + 7 * cols]));
    }
  }
  for (; row < rows; ++row) {
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) sum[j] += x[row * cols + j];
  }
}

template <typename T>
constexpr BiasKernels<T> kKernels = {Fill<T>, ColumnSum<T>};

}  // namespace

template <>
const BiasKernels<float>& Variant<BiasKernels<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const BiasKernels<double>& Variant<BiasKernels<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute

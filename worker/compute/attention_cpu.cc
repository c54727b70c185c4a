#include "worker/compute/attention.h"
#include "worker/compute/isa.h"
#include "worker/compute/vector_math.h"

namespace gimbal::compute {
namespace {

template <typename T>
void Softmax(int64_t rows, int64_t first_row, T scale, T* scores, T* inverse,
             T* lse, int64_t stride) {
  const int64_t cols = first_row + rows;
  for (int64_t i = 0; i < rows; ++i) {
    T* s = scores + i * cols;
    const int64_t visible = first_row + i + 1;
    const T max = scale * Max(visible, cols, s);
    const T sum = Sum<T>(visible, cols, [=](int64_t j) {
      s[j] = Exp(scale * s[j] - max);
      return s[j];
    });
    for (int64_t j = visible; j < cols; ++j) s[j] = 0;
    inverse[i] = 1 / sum;
    lse[i * stride] = max + static_cast<T>(::log(static_cast<double>(sum)));
  }
}

template <typename T>
void ScaleRows(int64_t rows, int64_t cols, const T* inverse, T* o,
               int64_t ldo) {
  for (int64_t i = 0; i < rows; ++i) {
    const T factor = inverse[i];
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) o[i * ldo + j] *= factor;
  }
}

template <typename T>
void Backward(int64_t rows, int64_t first_row, int64_t head_dim, T scale,
              const T* o, const T* dout, int64_t ldo, const T* lse,
              int64_t stride, T* scores_to_p, T* dp_to_ds) {
  const int64_t cols = first_row + rows;
  for (int64_t i = 0; i < rows; ++i) {
    T* p = scores_to_p + i * cols;
    T* ds = dp_to_ds + i * cols;
    const T* out = o + i * ldo;
    const T* d = dout + i * ldo;
    const T dot = Sum<T>(head_dim, [=](int64_t j) { return out[j] * d[j]; });
    const T shift = lse[i * stride];
    const int64_t visible = first_row + i + 1;
#pragma omp simd
    for (int64_t j = 0; j < visible; ++j) {
      p[j] = Exp(scale * p[j] - shift);
      ds[j] = scale * p[j] * (ds[j] - dot);
    }
    for (int64_t j = visible; j < cols; ++j) p[j] = ds[j] = 0;
  }
}

template <typename T>
constexpr AttentionKernels<T> kKernels = {Softmax<T>, ScaleRows<T>,
                                          Backward<T>};

}  // namespace

template <>
const AttentionKernels<float>&
Variant<AttentionKernels<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const AttentionKernels<double>&
Variant<AttentionKernels<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute

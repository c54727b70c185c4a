#include "worker/compute/isa.h"
#include "worker/compute/layer_norm.h"
#include "worker/compute/vector_math.h"

namespace gimbal::compute {
namespace {

template <typename T>
void Forward(int64_t rows, int64_t cols, T eps, const T* x, const T* w,
             const T* b, T* y, T* mean, T* rstd) {
  const T scale = T{1} / static_cast<T>(cols);
  for (int64_t row = 0; row < rows; ++row) {
    const T* in = x + row * cols;
    T* out = y + row * cols;
    const T m = scale * Sum<T>(cols, [=](int64_t j) { return in[j]; });
    const T var = scale * Sum<T>(cols, [=](int64_t j) {
                    return (in[j] - m) * (in[j] - m);
                  });
    const T r = static_cast<T>(1 / ::sqrt(static_cast<double>(var + eps)));
    mean[row] = m;
    rstd[row] = r;
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) out[j] = (in[j] - m) * r * w[j] + b[j];
  }
}

template <typename T>
void Backward(int64_t rows, int64_t cols, const T* x, const T* w, const T* b,
              const T* mean, const T* rstd, T* dy_to_y, T* dw, T* db, T* dx) {
  const T scale = T{1} / static_cast<T>(cols);
  for (int64_t row = 0; row < rows; ++row) {
    const T* in = x + row * cols;
    T* d = dy_to_y + row * cols;
    T* din = dx + row * cols;
    const T m = mean[row];
    const T r = rstd[row];
    const T mean_g =
        scale * Sum<T>(cols, [=](int64_t j) { return d[j] * w[j]; });
    const T mean_gx = scale * r * Sum<T>(cols, [=](int64_t j) {
                        return d[j] * w[j] * (in[j] - m);
                      });
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) {
      const T xhat = (in[j] - m) * r;
      dw[j] += d[j] * xhat;
      db[j] += d[j];
      din[j] += r * (d[j] * w[j] - mean_g - xhat * mean_gx);
      d[j] = xhat * w[j] + b[j];
    }
  }
}

template <typename T>
constexpr LayerNorm<T> kKernels = {Forward<T>, Backward<T>};

}  // namespace

template <>
const LayerNorm<float>& Variant<LayerNorm<float>, Isa::GIMBAL_ISA>() {
  return kKernels<float>;
}

template <>
const LayerNorm<double>& Variant<LayerNorm<double>, Isa::GIMBAL_ISA>() {
  return kKernels<double>;
}

}  // namespace gimbal::compute

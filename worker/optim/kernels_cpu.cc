// Compiled once per instruction set (worker/compute/isa.h).
#include "worker/compute/isa.h"
#include "worker/optim/kernels.h"

namespace gimbal::worker {
namespace {

inline float Root(float x) { return __builtin_sqrtf(x); }
inline double Root(double x) { return __builtin_sqrt(x); }

// old == new is the only overlap allowed, and it carries nothing from one
// element to another: `ivdep` says so.
template <typename T>
void AdamW(int64_t n, const AdamWRule& rule, const T* old_weights,
           const T* grads, T* m, T* v, T* new_weights) {
  const T b1 = static_cast<T>(rule.moments.beta1);
  const T c1 = static_cast<T>(1 - rule.moments.beta1);
  const T b2 = static_cast<T>(rule.moments.beta2);
  const T c2 = static_cast<T>(1 - rule.moments.beta2);
  const T eps = static_cast<T>(rule.moments.eps);
  const T scale = static_cast<T>(rule.grad_scale);
  const T keep = static_cast<T>(rule.keep);
  const T step = static_cast<T>(rule.step);
  const T root_factor = static_cast<T>(1 / rule.root_correction);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = scale * grads[i];
    const T mi = b1 * m[i] + c1 * g;
    const T vi = b2 * v[i] + c2 * g * g;
    m[i] = mi;
    v[i] = vi;
    new_weights[i] =
        keep * old_weights[i] - step * mi / (Root(vi) * root_factor + eps);
  }
}

template <typename T>
void RotatedDirection(int64_t n, const MomentRule& rule, T* g, T* m, T* v) {
  const T b1 = static_cast<T>(rule.beta1);
  const T c1 = static_cast<T>(1 - rule.beta1);
  const T b2 = static_cast<T>(rule.beta2);
  const T c2 = static_cast<T>(1 - rule.beta2);
  const T eps = static_cast<T>(rule.eps);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T mi = b1 * m[i] + c1 * g[i];
    const T vi = b2 * v[i] + c2 * g[i] * g[i];
    m[i] = mi;
    v[i] = vi;
    g[i] = mi / (Root(vi) + eps);
  }
}

template <typename T>
void Apply(int64_t n, double keep, double step, const T* old_weights,
           const T* direction, T* new_weights) {
  const T k = static_cast<T>(keep);
  const T s = static_cast<T>(step);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    new_weights[i] = k * old_weights[i] - s * direction[i];
  }
}

template <typename T>
double SquareSum(int64_t n, const T* x) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) {
      const double value = x[i + j];
      lanes[j] += value * value;
    }
  }
  for (int j = 0; i + j < n; ++j) {
    const double value = x[i + j];
    lanes[j] += value * value;
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

template <typename T>
constexpr OptimKernels<T> kKernels = {AdamW<T>, RotatedDirection<T>, Apply<T>,
                                      SquareSum<T>};

}  // namespace
}  // namespace gimbal::worker

namespace gimbal::compute {

template <>
const worker::OptimKernels<float>&
Variant<worker::OptimKernels<float>, Isa::GIMBAL_ISA>() {
  return worker::kKernels<float>;
}

template <>
const worker::OptimKernels<double>&
Variant<worker::OptimKernels<double>, Isa::GIMBAL_ISA>() {
  return worker::kKernels<double>;
}

}  // namespace gimbal::compute

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
  const T moment_step = static_cast<T>(rule.moment_step);
  const T gradient_step = static_cast<T>(rule.gradient_step);
  const T root_factor = static_cast<T>(1 / rule.root_correction);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T g = scale * grads[i];
    const T mi = b1 * m[i] + c1 * g;
    const T vi = b2 * v[i] + c2 * g * g;
    m[i] = mi;
    v[i] = vi;
    new_weights[i] =
        keep * old_weights[i] -
        (moment_step * mi + gradient_step * g) / (Root(vi) * root_factor + eps);
  }
}

template <typename T>
void RotatedDirection(int64_t n, const AdamWRule& rule, T* g, T* m, T* v) {
  const T b1 = static_cast<T>(rule.moments.beta1);
  const T c1 = static_cast<T>(1 - rule.moments.beta1);
  const T b2 = static_cast<T>(rule.moments.beta2);
  const T c2 = static_cast<T>(1 - rule.moments.beta2);
  const T eps = static_cast<T>(rule.moments.eps);
  const T moment_step = static_cast<T>(rule.moment_step);
  const T gradient_step = static_cast<T>(rule.gradient_step);
  const T root_factor = static_cast<T>(1 / rule.root_correction);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T gi = g[i];
    const T mi = b1 * m[i] + c1 * gi;
    const T vi = b2 * v[i] + c2 * gi * gi;
    m[i] = mi;
    v[i] = vi;
    g[i] = (moment_step * mi + gradient_step * gi) /
           (Root(vi) * root_factor + eps);
  }
}

template <typename T>
void Momentum(int64_t n, double beta, double scale, bool nesterov,
              const T* grads, T* m, T* out) {
  const T b = static_cast<T>(beta);
  const T s = static_cast<T>(scale);
  const T of_m = nesterov ? b : T{1};
  const T of_g = nesterov ? s : T{0};
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T mi = b * m[i] + s * grads[i];
    m[i] = mi;
    out[i] = of_m * mi + of_g * grads[i];
  }
}

template <typename T>
void Sgd(int64_t n, double beta, double scale, bool nesterov, double keep,
         double lr, const T* old_weights, const T* grads, T* m,
         T* new_weights) {
  const T b = static_cast<T>(beta);
  const T s = static_cast<T>(scale);
  const T k = static_cast<T>(keep);
  const T of_m = static_cast<T>(nesterov ? lr * beta : lr);
  const T of_g = static_cast<T>(nesterov ? lr * scale : 0);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T mi = b * m[i] + s * grads[i];
    m[i] = mi;
    new_weights[i] = k * old_weights[i] - (of_m * mi + of_g * grads[i]);
  }
}

template <typename T>
void Predict(int64_t n, const PredictionTerm* terms, int64_t count, double eps,
             const T* weights, const T* m, const T* v, T* out) {
  constexpr int64_t kChunk = 512;  // stays in the first cache
  const T e = static_cast<T>(eps);
  T root[kChunk], sum[kChunk];
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t size = n - begin < kChunk ? n - begin : kChunk;
    for (int64_t i = 0; i < size; ++i) {
      root[i] = Root(v[begin + i]);
      sum[i] = weights == nullptr ? T{0} : weights[begin + i];
    }
    for (int64_t term = 0; term < count; ++term) {
      const T step = static_cast<T>(terms[term].step);
      const T factor = static_cast<T>(terms[term].root_factor);
      for (int64_t i = 0; i < size; ++i) {
        sum[i] -= step * m[begin + i] / (root[i] * factor + e);
      }
    }
    for (int64_t i = 0; i < size; ++i) out[begin + i] = sum[i];
  }
}

template <typename T>
void Compensate(int64_t n, double scale, double lambda, const T* now,
                const T* then, T* g) {
  const T s = static_cast<T>(scale);
  const T l = static_cast<T>(lambda);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T gi = s * g[i];
    g[i] = gi + l * gi * gi * (now[i] - then[i]);
  }
}

template <typename T>
void CompensateAdaptive(int64_t n, double scale, double lambda, double keep,
                        double root_factor, double eps, const T* now,
                        const T* then, T* v, T* g) {
  const T s = static_cast<T>(scale);
  const T l = static_cast<T>(lambda);
  const T k = static_cast<T>(keep);
  const T c = static_cast<T>(1 - keep);
  const T factor = static_cast<T>(root_factor);
  const T e = static_cast<T>(eps);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T gi = s * g[i];
    const T vi = k * v[i] + c * gi * gi;
    v[i] = vi;
    g[i] = gi + l * gi * gi * (now[i] - then[i]) / (Root(vi) * factor + e);
  }
}

template <typename T>
void ErrorFeedback(int64_t n, const T* old_weights, T* previous,
                   T* new_weights) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T u = new_weights[i] - old_weights[i];
    new_weights[i] += u - previous[i];
    previous[i] = u;
  }
}

template <typename T>
void TrackVelocity(int64_t n, double decay, const T* old_weights,
                   const T* new_weights, T* d) {
  const T k = static_cast<T>(decay);
  const T c = static_cast<T>(1 - decay);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    d[i] = k * d[i] + c * (new_weights[i] - old_weights[i]);
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
void ToHalf(int64_t n, const T* x, uint16_t* out) {
  auto* half = reinterpret_cast<_Float16*>(out);
  for (int64_t i = 0; i < n; ++i) half[i] = static_cast<_Float16>(x[i]);
}

template <typename T>
void FromHalf(int64_t n, const uint16_t* x, T* out) {
  const auto* half = reinterpret_cast<const _Float16*>(x);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(half[i]);
}

inline uint32_t Exponent(float x) {
  return __builtin_bit_cast(uint32_t, x) & 0x7f800000u;
}
inline uint64_t Exponent(double x) {
  return __builtin_bit_cast(uint64_t, x) & 0x7ff0000000000000u;
}

// On bits: a sum of floats would not be vectorised.
template <typename T>
bool AllFinite(int64_t n, const T* x) {
  const auto full = Exponent(static_cast<T>(__builtin_inf()));
  auto found = full - full;
  for (int64_t i = 0; i < n; ++i) found |= Exponent(x[i]) == full;
  return found == 0;
}

template <typename T>
constexpr OptimKernels<T> kKernels = {
    AdamW<T>,
    RotatedDirection<T>,
    Sgd<T>,
    Momentum<T>,
    Predict<T>,
    Compensate<T>,
    CompensateAdaptive<T>,
    ErrorFeedback<T>,
    TrackVelocity<T>,
    Apply<T>,
    SquareSum<T>,
    AllFinite<T>,
    ToHalf<T>,
    FromHalf<T>,
};

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

// Functions that loops of kernel sources (X_cpu.cc) vectorise. Float versions
// are branch-free, with a relative error below 4e-7; double versions are
// libm's. The coefficients are Chebyshev fits, checked by vector_math_test.
//
// Internal linkage throughout: see isa.h. For kernel sources alone.
#pragma once

#include <math.h>

#include <cstdint>

namespace gimbal::compute {
namespace {

// e^x, held between the smallest and the largest normal result. NaN stays NaN.
inline float Exp(float x) {
  constexpr float kLowest = -87.33f;
  constexpr float kHighest = 88.37f;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // few bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding 1.5 * 2^23 rounds to the nearest integer, held in the low bits.
  constexpr float kRound = 12582912.0f;
  float clamped = x < kLowest ? kLowest : x;
  clamped = clamped > kHighest ? kHighest : clamped;
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.39262508e-3f;
  p = p * r + 8.36323288e-3f;
  p = p * r + 4.16665542e-2f;
  p = p * r + 1.66665767e-1f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  const uint32_t exponent = (__builtin_bit_cast(uint32_t, shifted) << 23) +
                            __builtin_bit_cast(uint32_t, 1.0f);
  const float power = __builtin_bit_cast(float, exponent);
  return p * power;
}

inline double Exp(double x) { return ::exp(x); }

// Standard normal distribution function, given density = exp(-x^2 / 2).
inline float NormalCdf(float x, float density) {
  // The lower tail is density * R(|x|), R a polynomial in w.
  const float w = 1.0f / (1.0f + 0.25f * ::fabsf(x));
  float p = 2.87847351e-2f;
  p = p * w - 1.67508096e-1f;
  p = p * w + 3.26081634e-1f;
  p = p * w - 2.39553377e-1f;
  p = p * w + 2.24722430e-1f;
  p = p * w + 2.33047754e-2f;
  p = p * w + 1.06168300e-1f;
  p = p * w + 9.81827751e-2f;
  p = p * w + 9.98168141e-2f;
  const float tail = density * (p * w);
  return x < 0 ? tail : 1.0f - tail;
}

inline double NormalCdf(double x, double) {
  return 0.5 * ::erfc(-x * 0.70710678118654752440);
}

// Reductions keep this many partial results, so the order of additions does not
// depend on the width of a vector.
constexpr int kLanes = 32;

// Loops of a known length, which become a few instructions each: with a width
// that changes they took longer than all else of a narrow layer norm.
template <typename T, int width = kLanes / 2>
inline T SumLanes(T* lane) {
#pragma omp simd
  for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  if constexpr (width > 1) return SumLanes<T, width / 2>(lane);
  return lane[0];
}

// Sum of f(i) for 0 <= i < n. f may be called, without effect on the sum, up to
// `readable`, which saves the last few from going one by one.
template <typename T, typename F>
inline T Sum(int64_t n, int64_t readable, F f) {
  T lane[kLanes];
#pragma omp simd
  for (int j = 0; j < kLanes; ++j) lane[j] = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) lane[j] += f(i + j);
  }
  if (i < n && i + kLanes <= readable) {
    const int rest = static_cast<int>(n - i);
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) {
      const T value = f(i + j);
      lane[j] += j < rest ? value : 0;
    }
    i = n;
  }
  for (int j = 0; i < n; ++i, ++j) lane[j] += f(i);
  return SumLanes(lane);
}

template <typename T, typename F>
inline T Sum(int64_t n, F f) {
  return Sum<T>(n, n, f);
}

template <typename T, int width = kLanes / 2>
inline T MaxLanes(T* lane) {
#pragma omp simd
  for (int j = 0; j < width; ++j) {
    lane[j] = lane[j + width] > lane[j] ? lane[j + width] : lane[j];
  }
  if constexpr (width > 1) return MaxLanes<T, width / 2>(lane);
  return lane[0];
}

// Largest of x[0..n), n >= 1. A NaN is passed over. x is read up to `readable`.
template <typename T>
inline T Max(int64_t n, int64_t readable, const T* x) {
  T lane[kLanes];
#pragma omp simd
  for (int j = 0; j < kLanes; ++j) lane[j] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) {
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
  }
  if (i < n && i + kLanes <= readable) {
    const int rest = static_cast<int>(n - i);
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) {
      const T value = j < rest ? x[i + j] : lane[j];
      lane[j] = value > lane[j] ? value : lane[j];
    }
    i = n;
  }
  for (int j = 0; i < n; ++i, ++j) lane[j] = x[i] > lane[j] ? x[i] : lane[j];
  return MaxLanes(lane);
}

template <typename T>
inline T Max(int64_t n, const T* x) {
  return Max<T>(n, n, x);
}

}  // namespace
}  // namespace gimbal::compute

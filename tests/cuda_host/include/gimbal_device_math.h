// Math of the device that C's library lacks. Fast forms are as exact as the
// others here; tests that compare with a device keep that in mind.
#pragma once

#include <math.h>
#include <stdint.h>

#include <bit>
#include <cmath>

namespace gimbal::cuda_host {

inline float FastExp(float x) { return expf(x); }
inline float FastExp10(float x) { return powf(10.0f, x); }
inline float FastLog(float x) { return logf(x); }
inline float FastLog2(float x) { return log2f(x); }
inline float FastLog10(float x) { return log10f(x); }
inline float FastSin(float x) { return sinf(x); }
inline float FastCos(float x) { return cosf(x); }
inline float FastTan(float x) { return tanf(x); }
inline float FastPow(float x, float y) { return powf(x, y); }

}  // namespace gimbal::cuda_host

// The C library has the underscored names for itself.
#define __expf ::gimbal::cuda_host::FastExp
#define __exp10f ::gimbal::cuda_host::FastExp10
#define __logf ::gimbal::cuda_host::FastLog
#define __log2f ::gimbal::cuda_host::FastLog2
#define __log10f ::gimbal::cuda_host::FastLog10
#define __sinf ::gimbal::cuda_host::FastSin
#define __cosf ::gimbal::cuda_host::FastCos
#define __tanf ::gimbal::cuda_host::FastTan
#define __powf ::gimbal::cuda_host::FastPow

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Out of range they clamp, and NaN is 0, as on the device.
inline int __float2int_rn(float x) {
  if (!(x > -2147483648.0f)) return x <= -2147483648.0f ? INT32_MIN : 0;
  return x >= 2147483648.0f ? INT32_MAX : static_cast<int>(nearbyintf(x));
}
inline int __float2int_rz(float x) { return __float2int_rn(truncf(x)); }
inline int __float2int_rd(float x) { return __float2int_rn(floorf(x)); }
inline int __float2int_ru(float x) { return __float2int_rn(ceilf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x,
                                     unsigned long long y) {
  return static_cast<unsigned long long>(
      (static_cast<unsigned __int128>(x) * y) >> 64);
}

#define GIMBAL_CUDA_MIN_MAX(type)                           \
  inline type min(type x, type y) { return y < x ? y : x; } \
  inline type max(type x, type y) { return x < y ? y : x; }
GIMBAL_CUDA_MIN_MAX(int)
GIMBAL_CUDA_MIN_MAX(unsigned)
GIMBAL_CUDA_MIN_MAX(long)
GIMBAL_CUDA_MIN_MAX(unsigned long)
GIMBAL_CUDA_MIN_MAX(long long)
GIMBAL_CUDA_MIN_MAX(unsigned long long)
#undef GIMBAL_CUDA_MIN_MAX
// Of a number and a NaN the number.
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }

// bfloat16: the upper half of a float, rounded to nearest even. Operators round
// once, as on devices that have them.
#pragma once

#include <bit>

#include "vector_types.h"

struct __nv_bfloat16;
__nv_bfloat16 __float2bfloat16_rn(float value);

struct __attribute__((aligned(2))) __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(float value);
  operator float() const {
    return std::bit_cast<float>(static_cast<unsigned>(__x) << 16);
  }

  unsigned short __x;
};

struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.__x;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.__x = bits;
  return value;
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto bits = std::bit_cast<unsigned>(value);
  if (value != value) return __ushort_as_bfloat16(0x7fff);
  const unsigned to_nearest = 0x7fff + (bits >> 16 & 1);
  return __ushort_as_bfloat16(
      static_cast<unsigned short>((bits + to_nearest) >> 16));
}
inline __nv_bfloat16 __float2bfloat16(float value) {
  return __float2bfloat16_rn(value);
}
inline float __bfloat162float(__nv_bfloat16 value) { return value; }

inline __nv_bfloat16::__nv_bfloat16(float value)
    : __nv_bfloat16(__float2bfloat16_rn(value)) {}

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) {
  return __floats2bfloat162_rn(v.x, v.y);
}
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
  return {x, y};
}
inline float __low2float(__nv_bfloat162 v) { return v.x; }
inline float __high2float(__nv_bfloat162 v) { return v.y; }

#define GIMBAL_BF16_OPERATOR(op)                                            \
  inline __nv_bfloat16 operator op(__nv_bfloat16 x, __nv_bfloat16 y) {      \
    return __float2bfloat16_rn(static_cast<float>(x)                        \
                                   op static_cast<float>(y));               \
  }                                                                         \
  inline __nv_bfloat16& operator op##=(__nv_bfloat16& x, __nv_bfloat16 y) { \
    return x = x op y;                                                      \
  }
GIMBAL_BF16_OPERATOR(+)
GIMBAL_BF16_OPERATOR(-)
GIMBAL_BF16_OPERATOR(*)
GIMBAL_BF16_OPERATOR(/)
#undef GIMBAL_BF16_OPERATOR

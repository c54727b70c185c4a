// IEEE half precision: storage and conversions, rounded to nearest even.
#pragma once

#include <bit>

struct __attribute__((aligned(2))) __half {
  unsigned short __x;
};

typedef __half half;

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half value) { return value.__x; }
inline __half __float2half_rn(float value) {
  return {std::bit_cast<unsigned short>(static_cast<_Float16>(value))};
}
inline float __half2float(__half value) {
  return std::bit_cast<_Float16>(value.__x);
}

#include <stddef.h>

#include "worker/compute/isa.h"
#include "worker/compute/wire.h"

namespace gimbal::compute {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kMagnitude = 0x7fffffff;

inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }

// A NaN keeps a bit of its fraction that is not cut off.
void ToBf16(int64_t n, const float* x, uint16_t* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = Bits(x[i]);
    const uint32_t nearest = bits + 0x7fff + ((bits >> 16) & 1);
    const bool nan = (bits & kMagnitude) > kInfinity;
    out[i] = static_cast<uint16_t>((nan ? bits | 0x400000 : nearest) >> 16);
  }
}

void FromBf16(int64_t n, const uint16_t* x, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    out[i] = __builtin_bit_cast(float, static_cast<uint32_t>(x[i]) << 16);
  }
}

// The order of magnitudes is that of their bits, with NaN above all.
float Largest(int64_t n, const float* x) {
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = Bits(x[i]) & kMagnitude;
    most = bits > most ? bits : most;
  }
  return __builtin_bit_cast(float, most);
}

void ToInt8(int64_t rows, int64_t cols, const float* x, float* scales,
            int8_t* out) {
  for (int64_t row = 0; row < rows; ++row, x += cols, out += cols) {
    const float most = Largest(cols, x);
    const bool finite = Bits(most) < kInfinity;
    const bool counts = finite && most >= 1e-30f;
    scales[row] = counts ? most / 127 : finite ? 0 : __builtin_nanf("");
    const float factor = counts ? 127 / most : 0;
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) {
      // Times 0 a NaN would not be a whole number.
      const float scaled = counts ? x[j] * factor : 0;
      out[j] = static_cast<int8_t>(static_cast<int>(__builtin_rintf(scaled)));
    }
  }
}

void FromInt8(int64_t rows, int64_t cols, const float* scales, const int8_t* x,
              float* out) {
  for (int64_t row = 0; row < rows; ++row, x += cols, out += cols) {
    const float scale = scales[row];
#pragma omp simd
    for (int64_t j = 0; j < cols; ++j) {
      out[j] = scale * static_cast<float>(x[j]);
    }
  }
}

}  // namespace

template <>
const WireKernels& Variant<WireKernels, Isa::GIMBAL_ISA>() {
  static constexpr WireKernels kKernels = {ToBf16, FromBf16, ToInt8, FromInt8};
  return kKernels;
}

}  // namespace gimbal::compute

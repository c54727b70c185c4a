// How a boundary tensor [rows, cols] is written when it goes from stage to
// stage (`precision.wire`). All of them are, also those that stay in a process:
// the numbers of a run do not depend on where its stages are.
//
//   fp32  as it is
//   bf16  each number rounded to the nearest, ties to even
//   int8  a scale per row, max |x| / 127, as fp32; then x / scale rounded to
//         the nearest, ties to even, [rows, cols]
//
// What is not finite stays so: in bf16 the number, in int8 its whole row (as
// NaN). A row of numbers below 1e-30 is zero in int8.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gimbal::compute {

enum class WireFormat : uint8_t { kFp32, kBf16, kInt8 };

constexpr int64_t WireBytes(WireFormat format, int64_t rows, int64_t cols) {
  switch (format) {
    case WireFormat::kBf16:
      return rows * cols * 2;
    case WireFormat::kInt8:
      return rows * (4 + cols);
    case WireFormat::kFp32:
      break;
  }
  return rows * cols * 4;
}

// `wire` is aligned to 4 bytes. FLOP: about 2 per number, memory is the limit.
// Bytes: those of both forms. Thread-safe.
void EncodeWire(WireFormat format, int64_t rows, int64_t cols, const float* x,
                std::byte* wire);
void DecodeWire(WireFormat format, int64_t rows, int64_t cols,
                const std::byte* wire, float* x);

// Kernels for the functions above. A row's `scales` and integers lie apart.
struct WireKernels {
  void (*to_bf16)(int64_t n, const float* x, uint16_t* out);
  void (*from_bf16)(int64_t n, const uint16_t* x, float* out);
  void (*to_int8)(int64_t rows, int64_t cols, const float* x, float* scales,
                  int8_t* out);
  void (*from_int8)(int64_t rows, int64_t cols, const float* scales,
                    const int8_t* x, float* out);
};

}  // namespace gimbal::compute

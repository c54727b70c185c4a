#include "worker/compute/wire.h"

#include <cstring>

#include "worker/compute/isa.h"

namespace gimbal::compute {

void EncodeWire(WireFormat format, int64_t rows, int64_t cols, const float* x,
                std::byte* wire) {
  const WireKernels& kernels = Kernels<WireKernels>();
  switch (format) {
    case WireFormat::kFp32:
      std::memcpy(wire, x, static_cast<size_t>(WireBytes(format, rows, cols)));
      break;
    case WireFormat::kBf16:
      kernels.to_bf16(rows * cols, x, reinterpret_cast<uint16_t*>(wire));
      break;
    case WireFormat::kInt8:
      kernels.to_int8(rows, cols, x, reinterpret_cast<float*>(wire),
                      reinterpret_cast<int8_t*>(wire + rows * 4));
      break;
  }
}

void DecodeWire(WireFormat format, int64_t rows, int64_t cols,
                const std::byte* wire, float* x) {
  const WireKernels& kernels = Kernels<WireKernels>();
  switch (format) {
    case WireFormat::kFp32:
      std::memcpy(x, wire, static_cast<size_t>(WireBytes(format, rows, cols)));
      break;
    case WireFormat::kBf16:
      kernels.from_bf16(rows * cols, reinterpret_cast<const uint16_t*>(wire),
                        x);
      break;
    case WireFormat::kInt8:
      kernels.from_int8(rows, cols, reinterpret_cast<const float*>(wire),
                        reinterpret_cast<const int8_t*>(wire + rows * 4), x);
      break;
  }
}

}  // namespace gimbal::compute

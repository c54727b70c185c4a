#include "tests/gpu/device.h"

#include <cuda_runtime.h>

#include "worker/compute/cuda/check.h"

namespace gimbal::gpu {
namespace {

double Attribute(cudaDeviceAttr attribute) {
  int value = 0;
  GIMBAL_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, 0));
  return value;
}

// fp32 lanes of a multiprocessor (CUDA C++ Programming Guide, throughput of
// arithmetic instructions).
double Lanes(int major, int minor) {
  return major == 8 && minor == 0 ? 64 : 128;
}

// FLOP of a multiprocessor's tensor cores per clock (NVIDIA's papers on the
// architectures).
double TensorFlops(int major, int minor) {
  if (major == 9) return 4096;
  return major == 8 && minor == 0 ? 2048 : 0;
}

}  // namespace

Device FirstDevice() {
  cudaDeviceProp properties{};
  GIMBAL_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  constexpr double kHzPerKhz = 1e3;
  Device device = {.name = properties.name,
                   .major = properties.major,
                   .minor = properties.minor,
                   .multiprocessors = properties.multiProcessorCount,
                   .clock_hz = kHzPerKhz * Attribute(cudaDevAttrClockRate)};
  device.peak_flops = device.multiprocessors *
                      Lanes(device.major, device.minor) * 2 * device.clock_hz;
  device.peak_bf16_flops = device.multiprocessors *
                           TensorFlops(device.major, device.minor) *
                           device.clock_hz;
  device.peak_bytes = 2 * kHzPerKhz * Attribute(cudaDevAttrMemoryClockRate) *
                      Attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  return device;
}

}  // namespace gimbal::gpu

#include "worker/compute/cuda/plugin.h"

#include <cuda_runtime.h>

#include <cstdio>

int gimbal_cuda_describe(char* text, int size) {
  // Untouched by cudaGetDeviceCount when it fails.
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  cudaDeviceProp device{};
  if (error != cudaSuccess || devices == 0 ||
      cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::snprintf(text, static_cast<size_t>(size), "no CUDA device: %s",
                  cudaGetErrorString(error));
    return 0;
  }
  std::snprintf(text, static_cast<size_t>(size),
                "%d CUDA device(s), first: %s, sm_%d%d, %.1f GiB", devices,
                device.name, device.major, device.minor,
                static_cast<double>(device.totalGlobalMem) / (1 << 30));
  return devices;
}

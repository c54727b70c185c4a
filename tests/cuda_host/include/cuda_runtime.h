// The CUDA runtime and the device language as C++ of the host's compiler.
// Kernels are functions; they are launched with cudaLaunchKernelEx and run on
// fibres (tests/cuda_host/block.h).
#pragma once

#include <functional>
#include <tuple>
#include <utility>

#include "cuda_runtime_api.h"
#include "gimbal_device_language.h"
#include "gimbal_device_math.h"

namespace gimbal::cuda_host {

// Puts the launch of `kernel` into the stream of `config`. `thread` runs one
// CUDA thread; it is kept until the kernel has run.
cudaError_t LaunchKernel(const cudaLaunchConfig_t* config, const void* kernel,
                         std::function<void()> thread);

}  // namespace gimbal::cuda_host

template <typename... ExpTypes, typename... ActTypes>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(ExpTypes...),
                               ActTypes&&... args) {
  // Parameters are copied at the call, as on a device.
  return gimbal::cuda_host::LaunchKernel(
      config, reinterpret_cast<const void*>(kernel),
      [kernel, values = std::tuple<ExpTypes...>(std::forward<ActTypes>(
                   args)...)] { std::apply(kernel, values); });
}

template <typename T>
cudaError_t cudaMalloc(T** devPtr, size_t size) {
  return cudaMalloc(reinterpret_cast<void**>(devPtr), size);
}

template <typename T>
cudaError_t cudaMallocAsync(T** devPtr, size_t size, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(devPtr), size, stream);
}

template <typename T>
cudaError_t cudaMallocHost(T** ptr, size_t size, unsigned int flags = 0) {
  return cudaHostAlloc(reinterpret_cast<void**>(ptr), size, flags);
}

template <typename T>
cudaError_t cudaHostAlloc(T** ptr, size_t size, unsigned int flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(ptr), size, flags);
}

template <typename T>
cudaError_t cudaFuncSetAttribute(T* func, enum cudaFuncAttribute attr,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(func), attr, value);
}

template <typename T>
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attr, T* func) {
  return cudaFuncGetAttributes(attr, reinterpret_cast<const void*>(func));
}

// Device memory for tests, as vectors that are copied there and back.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#define EXPECT_CUDA_OK(call) EXPECT_EQ(call, cudaSuccess)
#define ASSERT_CUDA_OK(call) ASSERT_EQ(call, cudaSuccess)

namespace gimbal::cuda_host {

template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(size_t size) : size_(size) {
    EXPECT_CUDA_OK(cudaMalloc(&data_, size * sizeof(T)));
  }
  explicit DeviceVector(const std::vector<T>& values)
      : DeviceVector(values.size()) {
    EXPECT_CUDA_OK(cudaMemcpy(data_, values.data(), size_ * sizeof(T),
                              cudaMemcpyHostToDevice));
  }
  DeviceVector(const DeviceVector&) = delete;
  ~DeviceVector() { cudaFree(data_); }

  T* data() { return data_; }
  size_t size() const { return size_; }

  // Waits for all that the blocking streams have been given.
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    EXPECT_CUDA_OK(cudaMemcpy(values.data(), data_, size_ * sizeof(T),
                              cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

// Launches into `stream`.
template <typename... Params>
cudaError_t Launch(void (*kernel)(Params...), dim3 grid, dim3 block,
                   size_t shared_bytes, cudaStream_t stream,
                   std::type_identity_t<Params>... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace gimbal::cuda_host

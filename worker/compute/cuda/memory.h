// Owners of what the CUDA runtime hands out. All throw std::bad_alloc or
// CudaError when they are made; they may be moved, not copied.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "worker/compute/cuda/check.h"

namespace gimbal::compute::cuda {

// `size` elements of device memory, zeroed before anything that is enqueued
// later.
template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(int64_t size) : size_(size) {
    if (size == 0) return;
    GIMBAL_CUDA_CHECK(cudaMalloc(&data_, bytes()));
    GIMBAL_CUDA_CHECK(cudaMemset(data_, 0, bytes()));
    GIMBAL_CUDA_CHECK(cudaDeviceSynchronize());
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  int64_t size() const { return size_; }
  size_t bytes() const { return static_cast<size_t>(size_) * sizeof(T); }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

// Page-locked host memory, which copies reach without a detour.
template <typename T>
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int64_t size) {
    GIMBAL_CUDA_CHECK(cudaHostAlloc(
        &data_, static_cast<size_t>(size) * sizeof(T), cudaHostAllocDefault));
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  ~PinnedBuffer() { cudaFreeHost(data_); }

  T* data() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
};

class Stream {
 public:
  Stream() {
    GIMBAL_CUDA_CHECK(
        cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  Stream(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }

  cudaStream_t get() const { return stream_; }
  void Wait() const { GIMBAL_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A point in a stream that other streams and the host wait for. One that has
// not been recorded is passed.
class Event {
 public:
  Event() {
    GIMBAL_CUDA_CHECK(
        cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  Event(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  void Record(const Stream& stream) {
    GIMBAL_CUDA_CHECK(cudaEventRecord(event_, stream.get()));
  }
  // Lets what is enqueued into `stream` from now on wait.
  void Delay(const Stream& stream) const {
    GIMBAL_CUDA_CHECK(cudaStreamWaitEvent(stream.get(), event_, 0));
  }
  void Wait() const { GIMBAL_CUDA_CHECK(cudaEventSynchronize(event_)); }
  bool Passed() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    GIMBAL_CUDA_CHECK(state);
    return true;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace gimbal::compute::cuda

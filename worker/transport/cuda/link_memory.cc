#include "worker/transport/cuda/link_memory.h"

#include <cuda_runtime.h>

#include <cstring>
#include <map>
#include <mutex>

#include "worker/compute/cuda/check.h"
#include "worker/compute/cuda/memory.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;

// Copies one after the other, each done when Copy returns.
class CopyStream {
 public:
  void Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    std::lock_guard lock(mutex_);
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                      kind, stream_.get()));
    stream_.Wait();
  }

 private:
  std::mutex mutex_;
  cuda::Stream stream_;
};

class DeviceMemory final : public compute::Memory {
 public:
  std::byte* Allocate(int64_t bytes) override {
    void* data = nullptr;
    GIMBAL_CUDA_CHECK(cudaMalloc(&data, static_cast<size_t>(bytes)));
    return static_cast<std::byte*>(data);
  }
  void Free(std::byte* data, int64_t /*bytes*/) override { cudaFree(data); }
  bool on_device() const override { return true; }
  void ToHost(const std::byte* from, int64_t bytes, std::byte* host) override {
    down_.Copy(host, from, bytes, cudaMemcpyDeviceToHost);
  }
  void FromHost(const std::byte* host, int64_t bytes, std::byte* to) override {
    up_.Copy(to, host, bytes, cudaMemcpyHostToDevice);
  }

 private:
  CopyStream down_, up_;
};

class LockedMemory final : public compute::Memory {
 public:
  std::byte* Allocate(int64_t bytes) override {
    std::lock_guard lock(mutex_);
    const auto found = free_.find(bytes);
    if (found != free_.end()) {
      std::byte* const data = found->second;
      free_.erase(found);
      return data;
    }
    for (const auto& [size, data] : free_) cudaFreeHost(data);
    free_.clear();
    void* data = nullptr;
    GIMBAL_CUDA_CHECK(
        cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocDefault));
    return static_cast<std::byte*>(data);
  }
  void Free(std::byte* data, int64_t bytes) override {
    std::lock_guard lock(mutex_);
    free_.emplace(bytes, data);
  }
  void ToHost(const std::byte* from, int64_t bytes, std::byte* host) override {
    std::memcpy(host, from, static_cast<size_t>(bytes));
  }
  void FromHost(const std::byte* host, int64_t bytes, std::byte* to) override {
    std::memcpy(to, host, static_cast<size_t>(bytes));
  }

 private:
  std::mutex mutex_;
  std::multimap<int64_t, std::byte*> free_;  // by size
};

}  // namespace

// Neither is ever destroyed: buffers may be given back at the very end.
compute::Memory& CudaLinkMemory() {
  static DeviceMemory* const memory = new DeviceMemory;
  return *memory;
}

compute::Memory& PinnedMemory() {
  static LockedMemory* const memory = new LockedMemory;
  return *memory;
}

}  // namespace gimbal::worker

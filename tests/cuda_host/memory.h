// The device's memory and pinned host memory.
//
// Without AddressSanitizer, device memory lies in mappings of its own, which
// end in a page that cannot be touched, and where the processor has protection
// keys only the thread that plays the device may touch it at all: a host
// function that follows a device pointer ends the process, with a line that
// says so. With AddressSanitizer it comes from malloc, so that every access
// beyond its end is reported. It begins as NaNs. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "tests/cuda_host/include/cuda_runtime_api.h"

namespace gimbal::cuda_host {

struct Allocation {
  enum class Kind { kDevice, kPinned, kRegistered };
  Kind kind = Kind::kDevice;
  uintptr_t begin = 0;
  size_t bytes = 0;
  int device = 0;
  size_t mapped = 0;  // Bytes of its mapping; 0: from malloc.
};

class Memory {
 public:
  static Memory& Get();

  // What a device has: GIMBAL_CUDA_HOST_MEMORY bytes, or 8 GiB.
  size_t total() const { return total_; }
  size_t used(int device);

  cudaError_t AllocateDevice(size_t bytes, int device, void** pointer);
  cudaError_t AllocatePinned(size_t bytes, int device, void** pointer);
  cudaError_t Free(void* pointer, Allocation::Kind kind);
  cudaError_t Register(void* pointer, size_t bytes, int device);
  cudaError_t Unregister(void* pointer);

  // Whether it points behind an allocation, into its last page. May be called
  // from a signal handler.
  bool IsGuard(const void* pointer);

  // False when no allocation contains `pointer`.
  bool Find(const void* pointer, Allocation* found);
  // True if all `bytes` from `pointer` lie in one allocation on the device.
  bool IsDevice(const void* pointer, size_t bytes);
  // True if they lie in pinned or registered host memory.
  bool IsPinned(const void* pointer, size_t bytes);
  // True if none of them belongs to the device.
  bool IsHost(const void* pointer, size_t bytes);

 private:
  Memory();
  const Allocation* Containing(const void* pointer) const;
  void* Map(size_t bytes, size_t* mapped);

  size_t total_;
  int key_ = 0;  // The protection key of device memory; 0: none.
  std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;
  std::map<int, size_t> used_;

  friend void AllowDeviceMemory(bool allow);
  friend bool DeviceMemoryIsGuarded();
};

// Lets the calling thread touch device memory, or no longer.
void AllowDeviceMemory(bool allow);
// Whether threads without that right are kept out.
bool DeviceMemoryIsGuarded();

}  // namespace gimbal::cuda_host

// The numbers of a snapshot, in host memory as a back end wants it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "worker/compute/memory.h"

namespace gimbal::worker {

// Movable. Not thread-safe.
class SnapshotMemory {
 public:
  SnapshotMemory() = default;
  SnapshotMemory(SnapshotMemory&& other) noexcept { *this = std::move(other); }
  SnapshotMemory& operator=(SnapshotMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SnapshotMemory() { Release(); }

  // Empty, with room for `capacity` numbers. Throws std::bad_alloc.
  void Reset(compute::Memory& memory, int64_t capacity);
  // `size` more numbers, still to be filled in. Requires room for them.
  float* Add(int64_t size);

  std::span<float> values() const {
    return {data_, static_cast<size_t>(size_)};
  }
  int64_t size() const { return size_; }

 private:
  void Release();

  compute::Memory* memory_ = nullptr;
  float* data_ = nullptr;
  int64_t capacity_ = 0, size_ = 0;
};

}  // namespace gimbal::worker

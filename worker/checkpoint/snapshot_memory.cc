#include "worker/checkpoint/snapshot_memory.h"

#include "common/base/log.h"

namespace gimbal::worker {

void SnapshotMemory::Reset(compute::Memory& memory, int64_t capacity) {
  size_ = 0;
  if (memory_ == &memory && capacity <= capacity_) return;
  Release();
  data_ = reinterpret_cast<float*>(memory.Allocate(capacity * 4));
  memory_ = &memory;
  capacity_ = capacity;
}

float* SnapshotMemory::Add(int64_t size) {
  GIMBAL_CHECK(size <= capacity_ - size_);
  return data_ + std::exchange(size_, size_ + size);
}

void SnapshotMemory::Release() {
  if (data_ == nullptr) return;
  memory_->Free(reinterpret_cast<std::byte*>(data_), capacity_ * 4);
  data_ = nullptr;
  capacity_ = size_ = 0;
}

}  // namespace gimbal::worker

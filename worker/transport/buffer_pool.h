// Recycled memory for message payloads, so that a steady pipeline allocates
// nothing per message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/compute/memory.h"

namespace gimbal::worker {

class BufferPool;

// A payload: `size` bytes on a 64-byte boundary, contents undefined at first.
// Goes back to its pool when destroyed, from any thread.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(PooledBuffer&& other) noexcept;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;
  ~PooledBuffer();

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  // Where it lies. Requires a buffer that was taken from a pool.
  compute::Memory& memory() const;
  // False without one.
  bool on_device() const;

 private:
  friend class BufferPool;
  std::shared_ptr<BufferPool> pool_;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Thread-safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // `capacity`: bytes of the largest buffer it will be asked for, all of
  // `memory`.
  static std::shared_ptr<BufferPool> Make(
      int64_t capacity, compute::Memory& memory = compute::HeapMemory());
  ~BufferPool();

  compute::Memory& memory() const { return memory_; }
  // So many buffers can be had without allocating.
  void Reserve(int buffers);
  // Requires size <= capacity.
  PooledBuffer Take(int64_t size);

 private:
  friend class PooledBuffer;
  BufferPool(int64_t capacity, compute::Memory& memory)
      : capacity_(capacity), memory_(memory) {}
  void Return(std::byte* data);

  const int64_t capacity_;
  compute::Memory& memory_;
  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

}  // namespace gimbal::worker

#include "worker/transport/buffer_pool.h"

#include <utility>

#include "common/base/log.h"

namespace gimbal::worker {

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PooledBuffer::~PooledBuffer() {
  if (data_ != nullptr) pool_->Return(data_);
}

compute::Memory& PooledBuffer::memory() const { return pool_->memory(); }

bool PooledBuffer::on_device() const {
  return pool_ != nullptr && pool_->memory().on_device();
}

std::shared_ptr<BufferPool> BufferPool::Make(int64_t capacity,
                                             compute::Memory& memory) {
  return std::shared_ptr<BufferPool>(new BufferPool(capacity, memory));
}

BufferPool::~BufferPool() {
  for (std::byte* data : free_) memory_.Free(data, capacity_);
}

void BufferPool::Reserve(int buffers) {
  for (int i = 0; i < buffers; ++i) Return(memory_.Allocate(capacity_));
}

PooledBuffer BufferPool::Take(int64_t size) {
  GIMBAL_CHECK(size >= 0 && size <= capacity_);
  PooledBuffer buffer;
  buffer.pool_ = shared_from_this();
  buffer.size_ = size;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      buffer.data_ = free_.back();
      free_.pop_back();
      return buffer;
    }
  }
  buffer.data_ = memory_.Allocate(capacity_);
  return buffer;
}

void BufferPool::Return(std::byte* data) {
  std::lock_guard lock(mutex_);
  free_.push_back(data);
}

}  // namespace gimbal::worker

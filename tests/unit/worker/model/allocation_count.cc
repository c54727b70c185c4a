// A file of its own: inlined into callers, a replaced operator looks mismatched
// to the compiler.
#include "tests/unit/worker/model/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations = 0;

// `size` rounded up, as aligned_alloc wants it.
void* Aligned(std::size_t alignment, std::size_t size) {
  ++allocations;
  return std::aligned_alloc(alignment,
                            (size + alignment - 1) / alignment * alignment);
}

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (void* p = Aligned(static_cast<std::size_t>(alignment), size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

// What compute::AllocateAligned calls; the program's own comes before libc's.
extern "C" int posix_memalign(void** out, std::size_t alignment,
                              std::size_t size) noexcept {
  *out = Aligned(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

namespace gimbal::worker {

int64_t AllocationCount() { return allocations; }

}  // namespace gimbal::worker

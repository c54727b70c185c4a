// A file of its own: inlined into callers, a replaced operator looks mismatched
// to the compiler.
#include "tests/unit/worker/model/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace gimbal::worker {

int64_t AllocationCount() { return allocations; }

}  // namespace gimbal::worker

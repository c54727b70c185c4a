#include "worker/compute/aligned_buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace gimbal::compute {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void* AllocateAligned(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const bool large = size >= kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kHugePage : size_t{kCacheLine}, size) !=
      0) {
    throw std::bad_alloc();
  }
  // Only a wish: without huge pages the memory is as good, and slower.
  if (large) madvise(memory, size, MADV_HUGEPAGE);
  return std::memset(memory, 0, size);
}

}  // namespace gimbal::compute

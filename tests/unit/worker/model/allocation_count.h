// Calls of operator new (aligned or not) and of posix_memalign so far in this
// test program, which replaces them.
#pragma once

#include <cstdint>

namespace gimbal::worker {

int64_t AllocationCount();

}  // namespace gimbal::worker

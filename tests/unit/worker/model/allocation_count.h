// Calls of operator new so far in this test program, which replaces it.
#pragma once

#include <cstdint>

namespace gimbal::worker {

int64_t AllocationCount();

}  // namespace gimbal::worker

// Facts about this process.
#pragma once

#include <cstdint>

namespace gimbal::base {

// Largest resident memory so far.
int64_t PeakRssBytes();

// Resident memory now.
int64_t RssBytes();

}  // namespace gimbal::base

// What would stand in the timeline of a tool that is attached.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gimbal::cuda_host {

// How often each range was entered, by all threads, since the last call.
std::map<std::string, int64_t> TakeRanges();
// Entered and not left.
int64_t OpenRanges();

}  // namespace gimbal::cuda_host

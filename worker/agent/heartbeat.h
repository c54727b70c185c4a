// How often a worker says that it is alive. Pure.
#pragma once

#include <algorithm>
#include <chrono>

namespace gimbal::worker {

// Several heartbeats fit into a lease, so that one that is late costs nothing.
// 0 stands for a lease that is not known yet.
constexpr std::chrono::milliseconds HeartbeatInterval(
    std::chrono::milliseconds lease) {
  constexpr std::chrono::milliseconds kLongest{500};
  if (lease.count() == 0) return kLongest;
  return std::clamp(lease / 6, std::chrono::milliseconds(1), kLongest);
}

}  // namespace gimbal::worker

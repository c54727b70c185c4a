// The small random numbers behind every order that a device does not promise.
#pragma once

#include <cstdint>

namespace gimbal::cuda_host {

// Not thread-safe. The same seed gives the same numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : state_((seed + 1) * 0x9E3779B97F4A7C15ull) {
    for (int i = 0; i < 4; ++i) Next();
  }

  // Below `n`, which is at least 1.
  uint32_t Below(uint32_t n) {
    return static_cast<uint32_t>((uint64_t{Next()} * n) >> 32);
  }

 private:
  uint32_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Dull) >> 32);
  }

  uint64_t state_;
};

}  // namespace gimbal::cuda_host

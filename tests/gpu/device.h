// The device that the benches run on, and what it could do at most.
#pragma once

#include <string>

namespace gimbal::gpu {

struct Device {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  double clock_hz = 0;
  // Products and sums of fp32 per second outside tensor cores: lanes of all
  // multiprocessors * 2 * clock.
  double peak_flops = 0;
  // Of bf16 in tensor cores, dense; 0: not known of this architecture.
  double peak_bf16_flops = 0;
  double peak_bytes = 0;  // of its memory, per second: 2 * clock * bus width
};

// The first device that CUDA_VISIBLE_DEVICES shows. Throws CudaError without
// one.
Device FirstDevice();

}  // namespace gimbal::gpu

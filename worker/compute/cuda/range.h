// A named stretch of what a thread hands to the device, for the timelines of
// NVIDIA's tools (NVTX). Some nanoseconds where none is attached; nothing where
// the toolkit has no header for it.
//
//   const Range range("forward");
#pragma once

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define GIMBAL_NVTX 1
#endif

namespace gimbal::compute::cuda {

class Range {
 public:
#ifdef GIMBAL_NVTX
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
#else
  explicit Range(const char*) {}
#endif
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace gimbal::compute::cuda

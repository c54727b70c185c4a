// Time that a stream spends on the bases, by events between the parts of an
// update. Not thread-safe.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "worker/compute/cuda/check.h"
#include "worker/optim/parameter_rule.h"

namespace gimbal::worker {

class CudaLaps {
 public:
  enum class Part { kOther, kRotate, kRefresh };

  explicit CudaLaps(cudaStream_t stream) : stream_(stream) {}
  CudaLaps(const CudaLaps&) = delete;
  ~CudaLaps() {
    for (const Mark& mark : marks_) cudaEventDestroy(mark.event);
  }

  // What has been enqueued since the last call is a `part`.
  void Lap(Part part) {
    if (used_ == marks_.size()) {
      marks_.emplace_back();
      GIMBAL_CUDA_CHECK(cudaEventCreate(&marks_.back().event));
    }
    marks_[used_].part = part;
    GIMBAL_CUDA_CHECK(cudaEventRecord(marks_[used_].event, stream_));
    ++used_;
  }

  // Since it was made. Waits for the last lap's end.
  BasisSeconds Sum() {
    if (used_ > 0) {
      GIMBAL_CUDA_CHECK(cudaEventSynchronize(marks_[used_ - 1].event));
    }
    for (size_t i = 1; i < used_; ++i) {
      float ms = 0;
      GIMBAL_CUDA_CHECK(
          cudaEventElapsedTime(&ms, marks_[i - 1].event, marks_[i].event));
      if (marks_[i].part == Part::kRotate) sum_.rotate += 1e-3 * ms;
      if (marks_[i].part == Part::kRefresh) sum_.refresh += 1e-3 * ms;
    }
    used_ = 0;
    return sum_;
  }

 private:
  struct Mark {
    cudaEvent_t event = nullptr;
    Part part = Part::kOther;
  };

  const cudaStream_t stream_;
  std::vector<Mark> marks_;
  size_t used_ = 0;
  BasisSeconds sum_;
};

}  // namespace gimbal::worker

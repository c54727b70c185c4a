// Recordings of tests/cuda_host/device.h.
#include <algorithm>

#include "tests/cuda_host/device.h"

namespace gimbal::cuda_host {

cudaError_t Device::BeginCapture(cudaStream_t stream,
                                 cudaStreamCaptureMode mode) {
  std::lock_guard lock(mutex_);
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  // The legacy stream cannot be recorded.
  if (found->capture != nullptr || found == legacy_[found->device]) {
    return cudaErrorStreamCaptureUnsupported;
  }
  found->capture = std::make_shared<Capture>();
  found->capture->origin = found;
  found->capture->mode = mode;
  found->capture->thread = std::this_thread::get_id();
  found->capture->tips[found];
  captures_.push_back(found->capture);
  return cudaSuccess;
}

cudaError_t Device::EndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard lock(mutex_);
  *graph = nullptr;
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = found->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != found) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  for (const auto& [part, tip] : capture->tips) part->capture = nullptr;
  std::erase(captures_, capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!capture->IsJoined()) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{
      std::make_shared<std::vector<GraphNode>>(std::move(capture->nodes))};
  return cudaSuccess;
}

cudaError_t Device::CaptureStatus(cudaStream_t stream,
                                  cudaStreamCaptureStatus* status) {
  std::lock_guard lock(mutex_);
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  *status = found->capture == nullptr ? cudaStreamCaptureStatusNone
            : found->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t Device::CheckUnsafeCall() {
  std::lock_guard lock(mutex_);
  if (InHostFunction()) return cudaErrorNotPermitted;
  cudaError_t error = sticky_;
  for (const auto& capture : captures_) {
    const bool mine = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && mine)) {
      capture->invalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  }
  return error;
}

bool Device::SpoilBlockingCaptures() {
  bool spoilt = false;
  for (const auto& stream : streams_) {
    if (stream->blocking && stream->capture != nullptr) {
      stream->capture->invalid = spoilt = true;
    }
  }
  return spoilt;
}

}  // namespace gimbal::cuda_host

// Streams and events of tests/cuda_host/device.h.
#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/cuda_host/device.h"

namespace gimbal::cuda_host {
namespace {

bool Pending(const CompletionPtr& completion) {
  return completion != nullptr && !completion->done;
}

}  // namespace

cudaError_t Device::CreateStream(int device, bool blocking,
                                 cudaStream_t* stream) {
  std::lock_guard lock(mutex_);
  streams_.push_back(std::make_unique<CUstream_st>());
  streams_.back()->device = device;
  streams_.back()->blocking = blocking;
  *stream = streams_.back().get();
  return cudaSuccess;
}

cudaError_t Device::DestroyStream(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(
      streams_.begin(), streams_.end(),
      [&](const auto& s) { return s.get() == stream && !s->destroyed; });
  if (found == streams_.end()) return cudaErrorInvalidResourceHandle;
  if ((*found)->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  (*found)->destroyed = true;
  if ((*found)->queue.empty()) streams_.erase(found);
  return cudaSuccess;
}

CUstream_st& Device::Legacy(int device) {
  CUstream_st*& legacy = legacy_[device];
  if (legacy == nullptr) {
    streams_.push_back(std::make_unique<CUstream_st>());
    legacy = streams_.back().get();
    legacy->device = device;
  }
  return *legacy;
}

CUstream_st* Device::FindLocked(cudaStream_t stream, int device) {
  if (stream == nullptr || stream == cudaStreamLegacy) return &Legacy(device);
  for (const auto& known : streams_) {
    if (known.get() == stream) return known->destroyed ? nullptr : stream;
  }
  return nullptr;
}

CUstream_st* Device::Find(cudaStream_t stream, int device) {
  std::lock_guard lock(mutex_);
  return FindLocked(stream, device);
}

CompletionPtr Device::Push(CUstream_st& stream, const MakeOperation& make) {
  auto completion = std::make_shared<Completion>();
  stream.queue.push_back({make(), completion});
  stream.last = completion;
  work_.notify_one();
  return completion;
}

// The legacy stream begins after and ends before everything in the blocking
// streams of its device.
void Device::OrderWithLegacy(CUstream_st& stream) {
  CUstream_st& legacy = Legacy(stream.device);
  if (!stream.blocking) return;
  if (&stream != &legacy) {
    if (Pending(legacy.last)) Push(stream, After(legacy.last));
    return;
  }
  for (const auto& other : streams_) {
    if (other.get() != &legacy && other->blocking &&
        other->device == stream.device && Pending(other->last)) {
      Push(legacy, After(other->last));
    }
  }
}

cudaError_t Device::Enqueue(cudaStream_t stream, const MakeOperation& make) {
  std::lock_guard lock(mutex_);
  if (sticky_ != cudaSuccess) return sticky_;
  if (InHostFunction()) return cudaErrorNotPermitted;
  CUstream_st* const to = FindLocked(stream, CurrentDevice());
  if (to == nullptr) return cudaErrorInvalidResourceHandle;
  if (to->capture != nullptr) {
    if (to->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    to->capture->Add(to, make);
    return cudaSuccess;
  }
  if (to == legacy_[to->device] && SpoilBlockingCaptures()) {
    return cudaErrorStreamCaptureImplicit;
  }
  OrderWithLegacy(*to);
  Push(*to, make);
  return cudaSuccess;
}

cudaError_t Device::Await(const CompletionPtr& completion,
                          std::unique_lock<std::mutex>& lock) {
  if (InHostFunction()) return cudaErrorNotPermitted;
  ++waiting_;
  work_.notify_one();
  progress_.wait(lock, [&] { return !Pending(completion); });
  --waiting_;
  return sticky_;
}

cudaError_t Device::Query(const CompletionPtr& completion) {
  if (sticky_ != cudaSuccess) return sticky_;
  if (!Pending(completion)) return cudaSuccess;
  asked_ = true;
  work_.notify_one();
  return cudaErrorNotReady;
}

cudaError_t Device::WaitForStream(cudaStream_t stream) {
  std::unique_lock lock(mutex_);
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->capture != nullptr) {
    found->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return Await(found->last, lock);
}

cudaError_t Device::QueryStream(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->capture != nullptr) {
    found->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return Query(found->last);
}

cudaError_t Device::WaitForAll() {
  std::unique_lock lock(mutex_);
  std::vector<CompletionPtr> all;
  for (const auto& stream : streams_) {
    if (stream->last != nullptr) all.push_back(stream->last);
  }
  for (const CompletionPtr& last : all) {
    const cudaError_t error = Await(last, lock);
    if (error != cudaSuccess) return error;
  }
  return sticky_;
}

cudaError_t Device::RecordEvent(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  if (sticky_ != cudaSuccess) return sticky_;
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->capture != nullptr) {
    if (found->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    event->capture = found->capture;
    event->captured_tips = found->capture->tips[found];
    return cudaSuccess;
  }
  event->capture.reset();
  OrderWithLegacy(*found);
  event->last = Push(*found, Nothing());
  return cudaSuccess;
}

cudaError_t Device::WaitEvent(cudaStream_t stream, cudaEvent_t event) {
  std::lock_guard lock(mutex_);
  if (sticky_ != cudaSuccess) return sticky_;
  CUstream_st* const found = FindLocked(stream, CurrentDevice());
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> recording = event->capture.lock();
  if (recording == nullptr) {
    if (found->capture != nullptr) {
      found->capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (Pending(event->last)) Push(*found, After(event->last));
    return cudaSuccess;
  }
  if (found->capture != nullptr && found->capture != recording) {
    found->capture->invalid = recording->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (found == legacy_[found->device]) return cudaErrorStreamCaptureImplicit;
  found->capture = recording;
  recording->Join(found, event->captured_tips);
  return cudaSuccess;
}

cudaError_t Device::QueryEvent(cudaEvent_t event) {
  std::lock_guard lock(mutex_);
  if (!event->capture.expired()) return cudaErrorCapturedEvent;
  return Query(event->last);
}

cudaError_t Device::WaitForEvent(cudaEvent_t event) {
  std::unique_lock lock(mutex_);
  if (!event->capture.expired()) return cudaErrorCapturedEvent;
  return Await(event->last, lock);
}

cudaError_t Device::ElapsedTime(cudaEvent_t start, cudaEvent_t end, float* ms) {
  std::lock_guard lock(mutex_);
  if (!start->timing || !end->timing || start->last == nullptr ||
      end->last == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (Pending(start->last) || Pending(end->last)) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(end->last->time -
                                                 start->last->time)
            .count();
  return sticky_;
}

}  // namespace gimbal::cuda_host

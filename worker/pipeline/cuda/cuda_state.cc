#include "worker/pipeline/cuda/cuda_state.h"

#include <cstring>

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;

}  // namespace

CudaState::CudaState(cudaStream_t stream, const UpdateUnits& units,
                     bool on_host)
    : stream_(stream), units_(units.units) {
  if (!on_host) {
    device_ = cuda::DeviceBuffer<std::byte>(units.state_bytes);
    home_ = device_.data();
    return;
  }
  host_.emplace(units.state_bytes);
  home_ = host_->data();
  std::memset(home_, 0, static_cast<size_t>(units.state_bytes));
  for (size_t i = 0; i < windows_.size(); ++i) {
    windows_[i].memory = cuda::DeviceBuffer<std::byte>(units.window_bytes[i]);
  }
}

// Copies may be under way.
CudaState::~CudaState() {
  cudaStreamSynchronize(bring_.get());
  cudaStreamSynchronize(return_.get());
}

StatePlace CudaState::home(size_t unit) const {
  const auto& state = units_[unit].state;
  return {home_ + state[0].offset, home_ + state[1].offset};
}

StatePlace CudaState::PlaceIn(const Window& window, size_t unit) const {
  std::byte* const base = window.memory.data();
  return {base, base + units_[unit].second_in_window()};
}

StatePlace CudaState::Begin(size_t unit) {
  if (!on_host()) return home(unit);
  Window& window = WindowOf(unit);
  if (window.unit != unit) Bring(unit);
  GIMBAL_CUDA_CHECK(cudaStreamWaitEvent(stream_, window.arrived.get(), 0));
  return PlaceIn(window, unit);
}

void CudaState::End(size_t unit, int changed) {
  if (!on_host()) return;
  Window& window = WindowOf(unit);
  GIMBAL_CUDA_CHECK(cudaEventRecord(window.used.get(), stream_));
  window.used.Delay(return_);
  const StatePlace from = PlaceIn(window, unit), to = home(unit);
  const auto& state = units_[unit].state;
  const auto copy = [&](std::byte* target, const std::byte* source,
                        int64_t bytes) {
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(target, source,
                                      static_cast<size_t>(bytes),
                                      cudaMemcpyDeviceToHost, return_.get()));
    traffic_.returned += bytes;
  };
  if (changed > 0) copy(to.first, from.first, state[0].bytes);
  if (changed > 1) copy(to.second, from.second, state[1].bytes);
  window.returned.Record(return_);
  const size_t next = unit + 2 < units_.size() ? unit + 2 : unit % 2;
  if (next != unit) Bring(next);
}

// After what went home before: also what is to be brought.
void CudaState::Bring(size_t unit) {
  Window& window = WindowOf(unit);
  window.returned.Delay(bring_);
  const StatePlace from = home(unit), to = PlaceIn(window, unit);
  const auto& state = units_[unit].state;
  const auto copy = [&](std::byte* target, const std::byte* source,
                        int64_t bytes) {
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(target, source,
                                      static_cast<size_t>(bytes),
                                      cudaMemcpyHostToDevice, bring_.get()));
    traffic_.brought += bytes;
  };
  copy(to.first, from.first, state[0].bytes);
  copy(to.second, from.second, state[1].bytes);
  window.arrived.Record(bring_);
  window.unit = unit;
}

void CudaState::Settle() const {
  for (const Window& window : windows_) {
    GIMBAL_CUDA_CHECK(cudaStreamWaitEvent(stream_, window.returned.get(), 0));
    GIMBAL_CUDA_CHECK(cudaStreamWaitEvent(stream_, window.arrived.get(), 0));
  }
}

void CudaState::HomeWritten() {
  for (Window& window : windows_) window.unit = kNone;
}

}  // namespace gimbal::worker

// Where the state of a stage's optimizer lies: on the device, or at home in
// page-locked memory of the host, from where units come to the device one after
// the other for the update and go back (update_units.h).
//
//   for (size_t i = 0; i < count; ++i) {
//     const StatePlace place = state.Begin(i);
//     ...                      // into the stream, with what lies there
//     state.End(i, 2);         // and both extents have changed
//   }
//
// On the host: two windows on the device, which units take turns in. While one
// is updated, the one before goes home and the next one comes, in streams of
// their own; events join them, the host waits for nothing. The first two come
// as soon as the last ones are done, beside what is computed until the next
// update.
//
// Not thread-safe. Throws CudaError; allocates when it is made, and no more.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/compute/cuda/memory.h"
#include "worker/pipeline/cuda/update_units.h"

namespace gimbal::worker {

// Of a unit's two extents.
struct StatePlace {
  std::byte* first = nullptr;
  std::byte* second = nullptr;
};

class CudaState {
 public:
  // Zeros. `on_host`: the units were made for that. What it is given must
  // outlive it.
  CudaState(cudaStream_t stream, const UpdateUnits& units, bool on_host);
  ~CudaState();
  CudaState(const CudaState&) = delete;

  // Units from the first to the last, again and again.
  StatePlace Begin(size_t unit);
  // `changed`: that many extents, from the first.
  void End(size_t unit, int changed);

  // Between updates: where a unit is, for copies in the stream after a Settle.
  StatePlace home(size_t unit) const;
  // Lets the stream wait until all of the state is at home.
  void Settle() const;
  // Somebody has written there.
  void HomeWritten();

  // Bytes that have been brought and taken home so far.
  struct Traffic {
    int64_t brought = 0, returned = 0;
  };
  const Traffic& traffic() const { return traffic_; }

 private:
  static constexpr size_t kNone = ~size_t{0};
  struct Window {
    compute::cuda::DeviceBuffer<std::byte> memory;
    size_t unit = kNone;  // what is there or on its way
    compute::cuda::Event arrived, used, returned;
  };
  bool on_host() const { return host_.has_value(); }
  Window& WindowOf(size_t unit) { return windows_[unit % 2]; }
  StatePlace PlaceIn(const Window& window, size_t unit) const;
  void Bring(size_t unit);

  const cudaStream_t stream_;
  const std::vector<UpdateUnit>& units_;
  compute::cuda::DeviceBuffer<std::byte> device_;
  std::optional<compute::cuda::PinnedBuffer<std::byte>> host_;
  std::byte* home_ = nullptr;  // in one of them
  std::array<Window, 2> windows_;
  compute::cuda::Stream bring_, return_;
  Traffic traffic_;
};

}  // namespace gimbal::worker

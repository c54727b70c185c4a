// What is enqueued into a stream again and again with the same arguments,
// recorded once and launched as a whole from then on: one launch instead of one
// per kernel, and the same bits.
//
//   graphs.Run({kForward, weights, slot}, [&] { model.Forward(...); });
//
// Not thread-safe. Throws CudaError, and what `enqueue` throws.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>

#include "worker/compute/cuda/memory.h"

namespace gimbal::compute::cuda {

// All that what is enqueued depends on.
using GraphKey = std::array<uint64_t, 5>;

class Graphs {
 public:
  // All of it happens in `stream`, which must outlive it.
  explicit Graphs(const Stream& stream) : stream_(stream) {}
  Graphs(const Graphs&) = delete;
  ~Graphs();

  // Calls `enqueue` as it is for a new key: it may choose algorithms then.
  // The second time it is recorded, so it must not wait, allocate or copy from
  // or to memory of the host that is not page-locked. Keys beyond kMaxGraphs
  // are never recorded.
  void Run(const GraphKey& key, const std::function<void()>& enqueue);

  // Runs that were launches of graphs.
  int64_t launches() const { return launches_; }

  static constexpr size_t kMaxGraphs = 256;

 private:
  cudaGraphExec_t Record(const std::function<void()>& enqueue);

  const Stream& stream_;
  std::map<GraphKey, cudaGraphExec_t> graphs_;  // null: seen once
  int64_t launches_ = 0;
};

}  // namespace gimbal::compute::cuda

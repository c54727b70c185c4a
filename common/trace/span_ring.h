// A queue of spans between the thread that computes and the one that writes.
// Its memory is there from the start; neither side ever waits, locks or calls
// the system. What finds no room is lost, and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/trace/span.h"

namespace gimbal::trace {

class SpanRing {
 public:
  // Room for what a stage does in about half a second.
  static constexpr size_t kCapacity = 8192;

  // The one thread that adds.
  void Add(const Span& span) {
    const uint64_t added = added_.load(std::memory_order_relaxed);
    if (added - taken_.load(std::memory_order_acquire) == kCapacity) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    spans_[added % kCapacity] = span;
    added_.store(added + 1, std::memory_order_release);
  }

  // The one thread that takes: moves all there are to the end of `to`.
  void TakeAll(std::vector<Span>& to) {
    const uint64_t added = added_.load(std::memory_order_acquire);
    uint64_t taken = taken_.load(std::memory_order_relaxed);
    for (; taken != added; ++taken) to.push_back(spans_[taken % kCapacity]);
    taken_.store(taken, std::memory_order_release);
  }
  // Spans lost since the last call.
  int64_t TakeLost() { return lost_.exchange(0, std::memory_order_relaxed); }

 private:
  std::vector<Span> spans_ = std::vector<Span>(kCapacity);
  std::atomic<uint64_t> added_ = 0;
  std::atomic<uint64_t> taken_ = 0;
  std::atomic<int64_t> lost_ = 0;
};

}  // namespace gimbal::trace

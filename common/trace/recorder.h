// Where a stage puts its spans. Off, it costs one relaxed load per question.
//
//   if (recorder.Wants(update)) recorder.Add({...});
//
// One thread records; another one takes and steers.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/trace/clock.h"
#include "common/trace/span_ring.h"

namespace gimbal::trace {

class Recorder {
 public:
  explicit Recorder(int stage) : stage_(static_cast<int16_t>(stage)) {}

  // Of so many updates one is recorded; 0: none. Any thread.
  void SetEvery(int64_t every) {
    every_.store(every, std::memory_order_relaxed);
  }
  bool Wants(int64_t update) const {
    const int64_t every = every_.load(std::memory_order_relaxed);
    return every > 0 && update % every == 0;
  }

  void Add(SpanKind kind, base::SteadyTime begin, base::SteadyTime end,
           int64_t index) {
    Add(begin, end, {.index = index, .kind = kind});
  }
  // Begin, end and stage are filled in.
  void Add(base::SteadyTime begin, base::SteadyTime end, Span span) {
    span.begin_ns = ClockNs(begin);
    span.end_ns = ClockNs(end);
    span.stage = stage_;
    ring_.Add(span);
  }

  SpanRing& ring() { return ring_; }

 private:
  const int16_t stage_;
  std::atomic<int64_t> every_ = 0;
  SpanRing ring_;
};

}  // namespace gimbal::trace

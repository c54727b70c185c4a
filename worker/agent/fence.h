// Keeps a worker that was stopped for longer than its lease (SIGSTOP, a frozen
// machine) from writing to the run: its stages may be somebody else's by now.
// Its own monotonic clock tells it, before it could hear so; from then on
// nothing is written until the coordinator has answered a probe.
//
//   Fence fence;
//   fence.Beat(now, lease);         // heartbeat thread; the probe to send or 0
//   fence.Answered(number);         // the worker still counts
//   fence.Lose();                   // it does not: its present stages are void
//   fence.Renew();                  // it has been given stages
//   absl::Status open = fence.Await();   // before a file counts
//
// Without a coordinator the fence stays as it is: whoever is not stopped knows
// what it may write.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace gimbal::worker {

// Thread-safe.
class Fence {
 public:
  explicit Fence(const base::Clock& clock) : clock_(clock) {}

  // More often than once per lease; a lease of 0 is not known yet.
  int64_t Beat(base::Seconds lease);
  void Answered(int64_t number);
  // Ends every Await: now, and those to come until Renew.
  void Lose();
  void LoseIfClosed();
  void Renew();

  // Waits until the fence is open. ABORTED when it is lost.
  absl::Status Await();

 private:
  bool TooLate() const;

  const base::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  base::SteadyTime last_beat_{};
  base::Seconds lease_{0};
  int64_t probe_ = 0;  // newest number
  bool closed_ = false;
  bool lost_ = false;
};

}  // namespace gimbal::worker

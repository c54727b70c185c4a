// The one thread on which everything about a run is decided.
//
//   EventLoop loop(50ms, [&](base::SteadyTime now) { run.Tick(now); });
//   loop.Post([&] { ... });     // from any thread, never blocks
//   loop.Start();               // what was posted before runs now
//   loop.Stop();                // runs what was posted, then ends
//
// Work runs in the order of its posting. The tick comes about every period,
// also while the loop has more to do than it can: it takes its place at the end
// of the queue, and is given the time at which it did. All that was posted
// before that time has run by then, so that a lease never runs out while the
// message that renews it stands in the queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "common/base/clock.h"

namespace gimbal::coordinator {

class EventLoop {
 public:
  using TickFunction = std::function<void(base::SteadyTime now)>;

  EventLoop(std::chrono::milliseconds period, TickFunction tick);
  // Stops.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Thread-safe. Every task runs exactly once; one that comes after Stop runs
  // on the caller's thread.
  void Post(std::function<void()> task);

  void Start();
  // Not from the loop's own thread. Idempotent.
  void Stop();

 private:
  void Run();
  void QueueTick();  // holds mutex_

  const std::chrono::milliseconds period_;
  const TickFunction tick_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;    // guarded by mutex_
  std::optional<base::SteadyTime> next_tick_;  // none while it is queued;
                                               // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  bool stopped_ = false;                       // guarded by mutex_
  std::thread thread_;
};

}  // namespace gimbal::coordinator

// The one thread on which everything about a run is decided.
//
//   EventLoop loop(50ms, [&] { run.Tick(Now()); });
//   loop.Post([&] { ... });     // from any thread, never blocks
//   loop.Start();               // what was posted before runs now
//   loop.Stop();                // runs what was posted, then ends
//
// Work runs in the order of its posting. The tick comes about every period, and
// only when nothing else waits: a lease never runs out while the message that
// renews it stands in the queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gimbal::coordinator {

class EventLoop {
 public:
  EventLoop(std::chrono::milliseconds period, std::function<void()> tick);
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

  const std::chrono::milliseconds period_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  bool stopped_ = false;                     // guarded by mutex_
  std::thread thread_;
};

}  // namespace gimbal::coordinator

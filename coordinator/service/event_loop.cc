#include "coordinator/service/event_loop.h"

#include <utility>

namespace gimbal::coordinator {

using Clock = std::chrono::steady_clock;

EventLoop::EventLoop(std::chrono::milliseconds period,
                     std::function<void()> tick)
    : period_(period), tick_(std::move(tick)) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (!stopped_) {
      tasks_.push_back(std::move(task));
      changed_.notify_one();
      return;
    }
  }
  task();
}

void EventLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void EventLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  } else {
    Run();  // never started: what was posted still has its turn
  }
}

void EventLoop::Run() {
  Clock::time_point next_tick = Clock::now() + period_;
  std::unique_lock lock(mutex_);
  while (true) {
    if (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    } else if (stopping_) {
      stopped_ = true;
      return;
    } else if (Clock::now() >= next_tick) {
      lock.unlock();
      tick_();
      next_tick = Clock::now() + period_;
      lock.lock();
    } else {
      changed_.wait_until(lock, next_tick);
    }
  }
}

}  // namespace gimbal::coordinator

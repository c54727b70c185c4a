#include "coordinator/service/event_loop.h"

#include <utility>

namespace gimbal::coordinator {

using Clock = std::chrono::steady_clock;

EventLoop::EventLoop(std::chrono::milliseconds period, TickFunction tick)
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

void EventLoop::QueueTick() {
  next_tick_.reset();
  tasks_.push_back([this, now = Clock::now()] {
    tick_(now);
    std::lock_guard lock(mutex_);
    next_tick_ = Clock::now() + period_;
  });
}

void EventLoop::Run() {
  std::unique_lock lock(mutex_);
  next_tick_ = Clock::now() + period_;
  while (true) {
    if (next_tick_.has_value() && Clock::now() >= *next_tick_ && !stopping_) {
      QueueTick();
    }
    if (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    } else if (stopping_) {
      stopped_ = true;
      return;
    } else {
      changed_.wait_until(lock, *next_tick_);
    }
  }
}

}  // namespace gimbal::coordinator

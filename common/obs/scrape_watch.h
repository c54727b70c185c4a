// Whether somebody reads a daemon's metrics regularly: one that ends can wait
// until it was read once more. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "common/base/clock.h"

namespace gimbal::obs {

class ScrapeWatch {
 public:
  explicit ScrapeWatch(const base::Clock& clock = base::Clock::Real())
      : clock_(clock) {}

  // Before the metrics are read.
  void Note();

  // Returns at the next Note, at the latest after twice the time between the
  // last two; at once when that is longer than `most`, or the last one longer
  // ago than that.
  void WaitForNext(std::chrono::milliseconds most);

 private:
  const base::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable noted_;
  // Guarded by mutex_:
  int64_t count_ = 0;
  base::SteadyTime last_;
  base::SteadyTime before_;
};

}  // namespace gimbal::obs

// The last minute of every stage's time by phase, for the page's timeline: the
// stages' `times` as they were once a second. Thread-safe: statuses come from
// the loop, pictures are asked for on other threads.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

class TimesHistory {
 public:
  // Of which the page shows the differences.
  static constexpr size_t kMostSamples = 61;

  struct StageSample {
    int stage = 0;
    v1::StageTimes times;
  };
  struct Sample {
    double unix_seconds = 0;
    std::vector<StageSample> stages;  // that have told theirs
  };

  // As often as there is a status; most are passed over.
  void Add(const v1::GetStatusResponse& status);

  // Oldest first.
  std::vector<Sample> samples() const;

 private:
  mutable std::mutex mutex_;
  std::deque<Sample> samples_;  // guarded by mutex_
  double newest_seconds_ = 0;   // likewise; in Unix seconds
};

}  // namespace gimbal::coordinator

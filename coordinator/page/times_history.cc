#include "coordinator/page/times_history.h"

#include <cmath>
#include <utility>

namespace gimbal::coordinator {

void TimesHistory::Add(const v1::GetStatusResponse& status) {
  std::lock_guard lock(mutex_);
  // The clock may be set back.
  if (std::abs(status.unix_seconds() - newest_seconds_) < 1) return;
  Sample sample{.unix_seconds = status.unix_seconds()};
  for (const v1::StageView& stage : status.stages()) {
    if (stage.has_times())
      sample.stages.push_back({stage.stage(), stage.times()});
  }
  if (sample.stages.empty()) return;
  newest_seconds_ = status.unix_seconds();
  samples_.push_back(std::move(sample));
  if (samples_.size() > kMostSamples) samples_.pop_front();
}

std::vector<TimesHistory::Sample> TimesHistory::samples() const {
  std::lock_guard lock(mutex_);
  return {samples_.begin(), samples_.end()};
}

}  // namespace gimbal::coordinator

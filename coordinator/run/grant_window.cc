#include "coordinator/run/grant_window.h"

#include <algorithm>
#include <cmath>

namespace gimbal::coordinator {
namespace {

constexpr int64_t kMost = 512;
constexpr base::Seconds kMeasured{2};
constexpr double kSecondsAhead = 1;

}  // namespace

GrantWindow::GrantWindow(int stages)
    : least_(2 * static_cast<int64_t>(stages) + 2), size_(least_) {}

void GrantWindow::Restart() {
  samples_.clear();
  updates_per_second_ = 0;
}

void GrantWindow::Observe(int64_t slowest, bool used_up, base::SteadyTime now) {
  samples_.push_back({now, slowest});
  while (samples_.size() > 2 && now - samples_[1].time >= kMeasured) {
    samples_.pop_front();
  }
  const base::Seconds span = now - samples_.front().time;
  if (span.count() > 0) {
    updates_per_second_ =
        static_cast<double>(slowest - samples_.front().update) / span.count();
  }
  const int64_t ahead =
      static_cast<int64_t>(std::ceil(updates_per_second_ * kSecondsAhead));
  size_ = used_up ? std::max(ahead, 2 * size_) : ahead;
  size_ = std::clamp(size_, least_, std::max(least_, kMost));
}

}  // namespace gimbal::coordinator

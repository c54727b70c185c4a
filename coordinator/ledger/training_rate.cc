#include "coordinator/ledger/training_rate.h"

#include <algorithm>

namespace gimbal::coordinator {
namespace {

constexpr double kWindowSeconds = 30;
constexpr double kLeastSeconds = 0.5;
constexpr double kSampleSeconds = 0.25;
constexpr double kStandstillSeconds = 3;
constexpr double kStandstillUpdates = 5;

}  // namespace

void TrainingRate::Add(double seconds, int64_t tokens, bool evaluated) {
  if (last_.has_value() && !interrupted_) {
    const double gap = seconds - last_->seconds;
    const bool still =
        !evaluated && updates_per_second() > 0 && gap > patience_seconds();
    if (still && stood_still_) samples_.assign(1, total_);
    if (!still || stood_still_) Count({gap, 1, tokens - last_->tokens});
    stood_still_ = still;
  }
  interrupted_ = false;
  last_ = {seconds, tokens};
}

void TrainingRate::Count(const Trained& more) {
  total_.seconds += more.seconds;
  total_.updates += more.updates;
  total_.tokens += more.tokens;
  const size_t size = samples_.size();
  if (size > 1 &&
      total_.seconds - samples_[size - 2].seconds < kSampleSeconds) {
    samples_.pop_back();
  }
  samples_.push_back(total_);
  while (samples_.size() > 2 &&
         samples_[1].seconds <= total_.seconds - kWindowSeconds) {
    samples_.pop_front();
  }
}

TrainingRate::Trained TrainingRate::Window() const {
  const Trained& first = samples_.front();
  return {total_.seconds - first.seconds, total_.updates - first.updates,
          total_.tokens - first.tokens};
}

double TrainingRate::updates_per_second() const {
  const Trained window = Window();
  if (window.seconds < kLeastSeconds) return 0;
  return static_cast<double>(window.updates) / window.seconds;
}

double TrainingRate::tokens_per_second() const {
  const Trained window = Window();
  if (window.seconds < kLeastSeconds) return 0;
  return static_cast<double>(window.tokens) / window.seconds;
}

double TrainingRate::patience_seconds() const {
  const double rate = updates_per_second();
  return std::max(kStandstillSeconds, rate > 0 ? kStandstillUpdates / rate : 0);
}

}  // namespace gimbal::coordinator

#include "coordinator/service/status_board.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace gimbal::coordinator {
namespace {

// Whoever was silent for longer than this is gone.
constexpr std::chrono::seconds kWatching{3};
// The loop publishes several times a second.
constexpr std::chrono::seconds kHangs{4};

}  // namespace

void StatusBoard::Publish(v1::GetStatusResponse status) {
  std::lock_guard lock(mutex_);
  status_.Swap(&status);
  published_ = clock_.Now();
}

v1::GetStatusResponse StatusBoard::Get() const {
  std::lock_guard lock(mutex_);
  return Shown();
}

v1::GetStatusResponse StatusBoard::Shown() const {
  v1::GetStatusResponse status = status_;
  const base::Seconds age(clock_.Now() - published_);
  const bool begun = published_ != base::SteadyTime();
  if (begun && !status.has_exit_code() && age > kHangs) {
    status.set_standstill(absl::StrFormat(
        "the coordinator itself has hung for %.0f s: is its disk full, slow or "
        "gone?",
        age.count()));
  }
  return status;
}

v1::GetStatusResponse StatusBoard::GetAndNote(const std::string& reader) {
  std::lock_guard lock(mutex_);
  std::erase_if(watching_, [&](const auto& entry) {
    return clock_.Now() - entry.second > kWatching;
  });
  if (status_.has_exit_code()) {
    watching_.erase(reader);
    told_.notify_all();
  } else {
    watching_[reader] = clock_.Now();
  }
  return Shown();
}

bool StatusBoard::SomebodyWaits() const {
  for (const auto& [reader, asked] : watching_) {
    if (clock_.Now() - asked <= kWatching) return true;
  }
  return false;
}

void StatusBoard::WaitForWatchers(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  told_.wait_for(lock, most, [&] { return !SomebodyWaits(); });
}

}  // namespace gimbal::coordinator

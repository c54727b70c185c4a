#include "coordinator/service/status_board.h"

#include <utility>

namespace gimbal::coordinator {
namespace {

// Whoever was silent for longer than this is gone.
constexpr std::chrono::seconds kWatching{3};

}  // namespace

void StatusBoard::Publish(v1::GetStatusResponse status) {
  std::lock_guard lock(mutex_);
  status_.Swap(&status);
}

v1::GetStatusResponse StatusBoard::Get() const {
  std::lock_guard lock(mutex_);
  return status_;
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
  return status_;
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

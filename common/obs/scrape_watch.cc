#include "common/obs/scrape_watch.h"

namespace gimbal::obs {

void ScrapeWatch::Note() {
  std::lock_guard lock(mutex_);
  before_ = last_;
  last_ = clock_.Now();
  ++count_;
  noted_.notify_all();
}

void ScrapeWatch::WaitForNext(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  if (count_ < 2) return;
  const auto patience = 2 * (last_ - before_);
  if (patience > most || clock_.Now() - last_ > patience) return;
  noted_.wait_for(lock, patience, [&, seen = count_] { return count_ > seen; });
}

}  // namespace gimbal::obs

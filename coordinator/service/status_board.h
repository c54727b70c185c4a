// The newest answer to GetStatus, under a mutex of its own: it can be read at
// once even while the loop writes a checkpoint or hangs, and says so when it
// has hung for some seconds. Thread-safe.
//
// Some readers watch the run: they ask again and again until they have seen its
// end, and the coordinator stays until they have.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "common/base/clock.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

class StatusBoard {
 public:
  explicit StatusBoard(const base::Clock& clock = base::Clock::Real())
      : clock_(clock) {}

  void Publish(v1::GetStatusResponse status);
  v1::GetStatusResponse Get() const;
  // For one who watches; `reader` tells readers apart.
  v1::GetStatusResponse GetAndNote(const std::string& reader);

  // Returns once every reader that watched during the last seconds has been
  // given a status with an exit code, at the latest after `most`.
  void WaitForWatchers(std::chrono::milliseconds most);

 private:
  v1::GetStatusResponse Shown() const;  // requires the lock
  bool SomebodyWaits() const;           // likewise

  const base::Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable told_;
  v1::GetStatusResponse status_;  // guarded by mutex_
  base::SteadyTime published_;    // likewise; when it was
  // Last questions of those who have not been told the end; guarded by mutex_.
  std::map<std::string, base::SteadyTime> watching_;
};

}  // namespace gimbal::coordinator

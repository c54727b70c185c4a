// What a daemon says of itself to whoever looks after processes:
//
//   /healthz  200 while the daemon's main loop turns, also when it waits for
//             somebody else; 503 when it has not for kSilence
//   /readyz   200 while it does its part in the run; 503, saying what it waits
//             for, otherwise
//
// Both answer with one line of text. Thread-safe.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "common/base/clock.h"
#include "common/obs/http_server.h"

namespace gimbal::obs {

class Health {
 public:
  // Longer than anything that the main loops wait for in one turn.
  static constexpr std::chrono::seconds kSilence{15};

  explicit Health(const base::Clock& clock = base::Clock::Real())
      : clock_(clock), beat_(clock.Now()) {}

  // The main loop turns.
  void Beat();
  // What the daemon waits for; empty: it is ready. At first it starts.
  void SetWaiting(const std::string& what);

  HttpResponse Alive() const;
  HttpResponse Ready() const;
  // Registers both pages; this must outlive the server.
  void Serve(HttpServer& server) const;

 private:
  const base::Clock& clock_;
  mutable std::mutex mutex_;
  base::SteadyTime beat_;           // guarded by mutex_
  std::string waiting_ = "starts";  // guarded by mutex_
};

}  // namespace gimbal::obs

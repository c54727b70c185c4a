// Follows a run through answers that are missed: a coordinator that hangs, or
// that is being started again, is not the end of the run. Pure: time is an
// argument.
//
//   RunFollower follower(address, patience, now);
//   while (true) {
//     auto seen = follower.Take(client.WatchStatus(), now, unix_seconds);
//     if (!seen.ok()) ...         // given up
//     display.Show(*seen, now);   // the newest answer, or an old one and since
//   }                             // when there is none
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

// What there is to show after an answer, or after none.
struct Followed {
  std::optional<v1::GetStatusResponse> status;  // the newest answer
  bool answered = false;                        // it is of just now
  std::string silence;  // since when there is none; empty: there is one
  std::string note;     // set when the silence begins and when it ends
};

class RunFollower {
 public:
  // Without `patience` it goes on for ever.
  RunFollower(std::string coordinator, std::optional<base::Seconds> patience,
              base::SteadyTime now)
      : coordinator_(std::move(coordinator)),
        patience_(patience),
        answered_(now) {}

  // UNAVAILABLE, with what was last seen, once the coordinator has been silent
  // for longer than `patience`. The answer's own error when nobody has answered
  // yet and this is a refusal (DEADLINE_EXCEEDED is none: it may only hang).
  absl::StatusOr<Followed> Take(absl::StatusOr<v1::GetStatusResponse> answer,
                                base::SteadyTime now, double unix_seconds);

 private:
  absl::Status GiveUp() const;

  std::string coordinator_;
  std::optional<base::Seconds> patience_;
  base::SteadyTime answered_;  // last time
  std::optional<v1::GetStatusResponse> last_;
  bool silent_ = false;  // and it was said
};

}  // namespace gimbal::cli

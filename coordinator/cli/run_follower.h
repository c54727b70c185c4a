// Follows a run through answers that may be missed: one that stays out is not
// the end of the run. Pure: time is an argument.
//
//   RunFollower follower(address);
//   auto status = follower.Take(client.WatchStatus(), now);   // again and
//   again if (!status.ok()) ...        // given up if (!status->has_value())
//   ...   // missed, ask again
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

class RunFollower {
 public:
  explicit RunFollower(std::string coordinator)
      : coordinator_(std::move(coordinator)) {}

  // The answer, or nothing when it was missed. An error when the first one is,
  // and UNAVAILABLE, with what was last seen, after five seconds of them.
  absl::StatusOr<std::optional<v1::GetStatusResponse>> Take(
      absl::StatusOr<v1::GetStatusResponse> answer, base::SteadyTime now);

 private:
  const std::string coordinator_;
  std::optional<v1::GetStatusResponse> last_;
  base::SteadyTime answered_;
};

}  // namespace gimbal::cli

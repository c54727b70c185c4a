#include "coordinator/cli/run_follower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

constexpr base::Seconds kPatience(5);

}  // namespace

absl::StatusOr<std::optional<v1::GetStatusResponse>> RunFollower::Take(
    absl::StatusOr<v1::GetStatusResponse> answer, base::SteadyTime now) {
  if (answer.ok()) {
    answered_ = now;
    last_ = *std::move(answer);
    return last_;
  }
  if (!last_.has_value()) return answer.status();
  if (now - answered_ < kPatience) {
    return std::optional<v1::GetStatusResponse>();
  }
  return absl::UnavailableError(absl::StrCat(
      "the coordinator at ", coordinator_, " is gone; last seen at update ",
      last_->update(), " of ", last_->steps(), "; `gimbal train --run-dir ",
      ShellWord(last_->run_dir()), " --resume` goes on with the run"));
}

}  // namespace gimbal::cli

#include "coordinator/cli/run_follower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

// An answer that is late is no silence.
constexpr base::Seconds kLate(2);

// As the logs have it.
std::string TimeOfDay(double unix_seconds) {
  return absl::FormatTime(
      "%H:%M:%S UTC", absl::FromUnixSeconds(static_cast<int64_t>(unix_seconds)),
      absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<Followed> RunFollower::Take(
    absl::StatusOr<v1::GetStatusResponse> answer, base::SteadyTime now,
    double unix_seconds) {
  const base::Seconds silence = now - answered_;
  Followed seen;
  seen.answered = answer.ok();
  if (answer.ok()) {
    answered_ = now;
    last_ = *std::move(answer);
    if (std::exchange(silent_, false)) {
      seen.note = absl::StrCat("the coordinator at ", coordinator_,
                               " answers again, after ",
                               FormatDuration(silence.count()));
    }
  } else if (!last_ && !absl::IsDeadlineExceeded(answer.status())) {
    return answer.status();
  } else if (patience_ && silence > *patience_) {
    return GiveUp();
  } else if (silence >= kLate) {
    const std::string since = TimeOfDay(unix_seconds - silence.count());
    seen.silence = absl::StrCat("no answer from the coordinator since ", since,
                                ", for ", FormatDuration(silence.count()),
                                last_ ? "; this was before:" : "");
    if (!std::exchange(silent_, true)) {
      seen.note =
          absl::StrCat("the coordinator at ", coordinator_,
                       " has not answered since ", since, "; asks again");
    }
  }
  seen.status = last_;
  return seen;
}

absl::Status RunFollower::GiveUp() const {
  const std::string who = absl::StrCat("the coordinator at ", coordinator_,
                                       " has not answered for ",
                                       FormatDuration(patience_->count()));
  if (!last_) return absl::UnavailableError(who);
  return absl::UnavailableError(absl::StrCat(
      who, "; last seen at update ", last_->update(), " of ", last_->steps(),
      "; if it is gone, `gimbal train --run-dir ", ShellWord(last_->run_dir()),
      " --resume` goes on with the run"));
}

}  // namespace gimbal::cli

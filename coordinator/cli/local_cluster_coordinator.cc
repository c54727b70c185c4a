// The coordinator's lives.
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/net/address.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/local_cluster.h"

namespace gimbal::cli {
namespace {

using std::chrono::milliseconds;

constexpr base::Seconds kLongStart(5);
// After a coordinator's restart all workers have to find it.
constexpr base::Seconds kFindsAgain(8);
// A coordinator that has answered nothing for so long is hung, unless nobody
// has asked it in between (the whole job was stopped).
constexpr base::Seconds kNoAnswer(30);
constexpr base::Seconds kNotAsked(10);
// How long what keeps a later life from starting may last: a disk that is full,
// a port that somebody has taken.
constexpr base::Seconds kObstacle(60);

}  // namespace

absl::Status LocalCluster::StartFirstCoordinator() {
  GIMBAL_RETURN_IF_ERROR(StartCoordinator(base::Clock::Real().Now()));
  while (true) {
    NoteServing(base::Clock::Real().Now());
    if (serving_) return absl::OkStatus();
    if (const std::optional<int> code = coordinator_->Poll()) {
      return IsRunsEnd(*code) ? absl::OkStatus() : DidNotServe(*code);
    }
    if (options_.wait(milliseconds(10))) {
      return absl::CancelledError("interrupted before the run began");
    }
  }
}

absl::Status LocalCluster::StartCoordinator(base::SteadyTime now) {
  std::vector<std::string> argv = {options_.bin_dir + "/gimbal-coordinator",
                                   "--config",
                                   "/dev/stdin",
                                   "--run-dir",
                                   options_.run_dir,
                                   "--workers",
                                   std::to_string(options_.workers),
                                   "--log-level",
                                   options_.log_level,
                                   "--log-format",
                                   options_.log_format};
  if (options_.resume) argv.push_back("--resume");
  // A second life has to be where the workers look for it.
  if (!address_.empty()) {
    argv.push_back("--listen");
    argv.push_back(net::HostOf(options_.listen) +
                   address_.substr(address_.rfind(':')));
  }
  // And where a browser looks for its page.
  if (!http_address_.empty()) {
    argv.push_back("--metrics-listen");
    argv.push_back(http_address_);
  }
  NoteLogBegin("coordinator");
  coordinator_started_ = told_ = now;
  unanswered_since_.reset();
  GIMBAL_ASSIGN_OR_RETURN(
      coordinator_,
      ChildProcess::Start(argv, LogPath("coordinator"), options_.config));
  return absl::OkStatus();
}

void LocalCluster::NoteServing(base::SteadyTime now) {
  const auto file = ReadCoordinatorFile(options_.run_dir);
  // Of another pid: left behind by a coordinator that was killed.
  if (file.ok() && file->pid == coordinator_->pid()) {
    address_ = file->address;
    http_address_ = file->metrics_address;
    serving_ = true;
    failed_starts_ = 0;
    return;
  }
  if (now - told_ < kLongStart || coordinator_->Poll()) return;
  told_ = now;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      told_ - coordinator_started_);
  options_.notice(
      absl::StrCat("the coordinator reads the data and the checkpoint, ",
                   seconds.count(), " s so far"));
}

absl::Status LocalCluster::DidNotServe(int code) const {
  const std::string what =
      absl::StrCat("the coordinator ended with exit code ", code,
                   " before it served; ", LogTail("coordinator"));
  return code == kBadUsage ? absl::FailedPreconditionError(what)
                           : absl::InternalError(what);
}

std::optional<int> LocalCluster::coordinator_exit() {
  if (!coordinator_) return std::nullopt;
  const std::optional<int> code = coordinator_->Poll();
  if (!code || finished_ || address_.empty() || IsRunsEnd(*code)) return code;
  // Ended by a signal, so not by its own decision, or met by an obstacle.
  const bool lives_again = *code > 128 || !serving_;
  return lives_again ? std::nullopt : code;
}

// It finds the run in its folder, and the workers, which still hold their
// stages, find it.
absl::Status LocalCluster::SuperviseCoordinator(base::SteadyTime now) {
  if (!coordinator_) {
    if (now < coordinator_restart_at_) return absl::OkStatus();
    return StartCoordinator(now);
  }
  if (!serving_) NoteServing(now);
  const std::optional<int> code = coordinator_->Poll();
  if (!code) return absl::OkStatus();
  milliseconds pause(0);
  if (*code > 128) {
    GIMBAL_ASSIGN_OR_RETURN(pause, NoteKilled(*code, now));
  } else {
    GIMBAL_ASSIGN_OR_RETURN(pause, NoteFailedStart(*code, now));
  }
  coordinator_.reset();
  serving_ = false;
  coordinator_restart_at_ = now + pause;
  options_.resume = true;
  // They have to find the new one first.
  for (Worker& worker : workers_) {
    worker.patience = std::max(worker.patience, kFindsAgain);
  }
  noted_.reset();
  return absl::OkStatus();
}

absl::StatusOr<milliseconds> LocalCluster::NoteKilled(int code,
                                                      base::SteadyTime now) {
  const bool early = now - coordinator_started_ < kShortLife;
  coordinator_short_lives_ = early ? coordinator_short_lives_ + 1 : 1;
  if (coordinator_short_lives_ > kMaxShortLives) {
    return absl::InternalError(absl::StrCat(
        "the coordinator ended ", kMaxShortLives, " times right after its ",
        "start, last with exit code ", code, "; ", LogTail("coordinator")));
  }
  options_.notice(absl::StrCat("the coordinator ended with exit code ", code,
                               "; starts again"));
  return Backoff(coordinator_short_lives_);
}

absl::StatusOr<milliseconds> LocalCluster::NoteFailedStart(
    int code, base::SteadyTime now) {
  const absl::Status status = DidNotServe(code);
  if (failed_starts_++ == 0) {
    failing_since_ = now;
    options_.notice(absl::StrCat(absl::string_view(status.message()),
                                 "tries again for ", kObstacle.count(), " s"));
  }
  if (now - failing_since_ > kObstacle) return status;
  return Backoff(failed_starts_);
}

void LocalCluster::NoteNoAnswer(base::SteadyTime now) {
  const bool asked = unanswered_ && now - *unanswered_ < kNotAsked;
  unanswered_ = now;
  if (!unanswered_since_ || !asked) unanswered_since_ = now;
  if (!coordinator_ || now - *unanswered_since_ < kNoAnswer) return;
  unanswered_since_.reset();
  options_.notice(
      absl::StrCat("the coordinator hangs: it has not answered for ",
                   kNoAnswer.count(), " s; kills it"));
  coordinator_->Signal(SIGKILL);
}

}  // namespace gimbal::cli

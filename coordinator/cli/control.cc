#include "coordinator/cli/control.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/run_follower.h"
#include "coordinator/cli/run_summary.h"
#include "coordinator/cli/signals.h"
#include "coordinator/service/status_json.h"

namespace gimbal::cli {
namespace {

constexpr base::Seconds kPrompt(0.8);
constexpr base::Seconds kPatience(3);
// Of two views of a run that is watched; and a rest for one that is refused.
constexpr base::Seconds kEvery(1);
constexpr std::chrono::milliseconds kShortest(50);

absl::StatusOr<std::string> AddressOf(const Target& target) {
  if (!target.coordinator.empty()) return target.coordinator;
  if (!target.run_dir.empty()) return CoordinatorAddress(target.run_dir);
  return absl::InvalidArgumentError(
      "say which run: --run-dir DIR or --coordinator HOST:PORT");
}

// Says within a second that the coordinator hangs; it may only be slow.
absl::StatusOr<v1::GetStatusResponse> AskOnce(const AdminClient& client) {
  auto answer = client.GetStatus(kPrompt);
  if (!absl::IsDeadlineExceeded(answer.status())) return answer;
  std::fprintf(stderr, "%s; asks again\n",
               std::string(answer.status().message()).c_str());
  answer = client.GetStatus(kPatience);
  if (!absl::IsDeadlineExceeded(answer.status())) return answer;
  return absl::DeadlineExceededError(absl::StrCat(
      answer.status().message(), "; the `gimbal train` that started it, if ",
      "there is one, starts it again after half a minute of silence, else ",
      "kill it and start it again: its workers wait for it"));
}

// What came of a run that nobody serves any more; `why` says so, and what can
// be done.
absl::Status PrintEnd(const std::string& run_dir, absl::string_view why) {
  GIMBAL_ASSIGN_OR_RETURN(const RunSummary summary, ReadRunSummary(run_dir));
  std::printf("%s\n\n%s", std::string(why).c_str(),
              FormatSummary(summary).c_str());
  return absl::OkStatus();
}

absl::Status ShowEnd(const StatusOptions& options, const absl::Status& why) {
  const bool shown =
      !options.json && PrintEnd(options.target.run_dir, why.message()).ok();
  return shown ? absl::OkStatus() : why;
}

absl::Status PrintOnce(const AdminClient& client, bool json) {
  GIMBAL_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, AskOnce(client));
  const std::string text =
      json ? coordinator::StatusJson(status, /*pretty=*/true)
           : StatusReport(status, Display::Columns());
  std::printf("%s", text.c_str());
  return absl::OkStatus();
}

// Who serves the run, as long as it is watched: a coordinator that is started
// again may be found elsewhere.
class Served {
 public:
  static absl::StatusOr<Served> Find(const Target& target) {
    GIMBAL_ASSIGN_OR_RETURN(std::string address, AddressOf(target));
    GIMBAL_ASSIGN_OR_RETURN(rpc::Credentials credentials,
                            ClientCredentials(target.run_dir));
    return Served(target, std::move(address), std::move(credentials));
  }

  const std::string& address() const { return address_; }
  const AdminClient& client() const { return *client_; }

  // NOT_FOUND when nobody serves the run any more.
  absl::Status FindAgain() {
    GIMBAL_ASSIGN_OR_RETURN(std::string address, AddressOf(target_));
    if (address == address_) return absl::OkStatus();
    address_ = std::move(address);
    client_ = std::make_unique<AdminClient>(address_, credentials_);
    return absl::OkStatus();
  }

 private:
  Served(Target target, std::string address, rpc::Credentials credentials)
      : target_(std::move(target)),
        address_(std::move(address)),
        credentials_(std::move(credentials)),
        client_(std::make_unique<AdminClient>(address_, credentials_)) {}

  Target target_;
  std::string address_;
  rpc::Credentials credentials_;
  std::unique_ptr<AdminClient> client_;
};

void PrintJson(const Followed& seen) {
  if (!seen.note.empty()) std::fprintf(stderr, "%s\n", seen.note.c_str());
  if (!seen.answered) return;
  std::printf("%s",
              coordinator::StatusJson(*seen.status, /*pretty=*/false).c_str());
  std::fflush(stdout);
}

// One JSON object per line with `json`, otherwise as `gimbal train` shows it.
// Only the run's end or ^C ends it.
absl::Status WatchRun(const StatusOptions& options) {
  const SignalQueue signals;  // before any other thread
  const base::Clock& clock = base::Clock::Real();
  absl::StatusOr<Served> served = Served::Find(options.target);
  if (absl::IsNotFound(served.status())) {
    return ShowEnd(options, served.status());
  }
  GIMBAL_RETURN_IF_ERROR(served.status());
  Display display(Display::OnTerminal(), /*log_every=*/1);
  RunFollower follower(served->address(), std::nullopt, clock.Now());
  while (true) {
    const base::SteadyTime begin = clock.Now();
    const auto answer = served->client().WatchStatus(kPrompt);
    const base::SteadyTime now = clock.Now();
    GIMBAL_ASSIGN_OR_RETURN(const Followed seen,
                            follower.Take(answer, now, clock.UnixSeconds()));
    if (options.json) {
      PrintJson(seen);
    } else {
      display.Show(seen, now);
    }
    if (seen.answered && seen.status->has_exit_code()) return absl::OkStatus();
    const absl::Status found =
        seen.answered ? absl::OkStatus() : served->FindAgain();
    if (absl::IsNotFound(found)) {
      display.Finish();
      return ShowEnd(options, found);
    }
    const base::Seconds left = kEvery - (now - begin);
    const auto wait =
        std::chrono::duration_cast<std::chrono::milliseconds>(left);
    if (IsStop(signals.Wait(std::max(kShortest, wait)))) {
      return absl::OkStatus();
    }
  }
}

absl::Status ShowStatus(const StatusOptions& options) {
  const absl::StatusOr<Served> served = Served::Find(options.target);
  if (absl::IsNotFound(served.status())) {
    return ShowEnd(options, served.status());
  }
  GIMBAL_RETURN_IF_ERROR(served.status());
  return PrintOnce(served->client(), options.json);
}

absl::Status SendCommand(const Target& target, v1::CommandRequest request) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string address, AddressOf(target));
  GIMBAL_ASSIGN_OR_RETURN(const rpc::Credentials credentials,
                          ClientCredentials(target.run_dir));
  std::string name = v1::CommandRequest::Verb_Name(request.verb());
  name = absl::AsciiStrToLower(name.substr(name.find('_') + 1));
  request.set_reason(absl::StrCat("gimbal ", name, " by pid ", getpid()));
  GIMBAL_ASSIGN_OR_RETURN(const v1::CommandResponse response,
                          AdminClient(address, credentials).Command(request));
  std::printf("%s\n", response.message().c_str());
  return absl::OkStatus();
}

absl::Status SendRefresh(const RefreshOptions& options) {
  v1::CommandRequest request;
  request.set_verb(v1::CommandRequest::VERB_REFRESH);
  v1::RefreshPolicy policy = v1::REFRESH_POLICY_UNSPECIFIED;
  const std::string name =
      "REFRESH_POLICY_" + absl::AsciiStrToUpper(options.policy);
  if (!v1::RefreshPolicy_Parse(name, &policy)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--policy: found '", options.policy,
                     "', expected uniform, stage_aware, inverse or adaptive"));
  }
  request.set_refresh_policy(policy);
  request.set_refresh_period(options.period);
  return SendCommand(options.target, request);
}

}  // namespace

int RunStatus(const StatusOptions& options) {
  const absl::Status status =
      options.watch ? WatchRun(options) : ShowStatus(options);
  return status.ok() ? kDone : Fail(status);
}

int RunCommand(const Target& target, const v1::CommandRequest& request) {
  const absl::Status status = SendCommand(target, request);
  return status.ok() ? kDone : Fail(status);
}

int RunRefresh(const RefreshOptions& options) {
  const absl::Status status = SendRefresh(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli

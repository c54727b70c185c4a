#include "coordinator/cli/control.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

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
constexpr base::Seconds kSilence(2);

absl::StatusOr<std::string> AddressOf(const Target& target) {
  if (!target.coordinator.empty()) return target.coordinator;
  if (!target.run_dir.empty()) return CoordinatorAddress(target.run_dir);
  return absl::InvalidArgumentError(
      "say which run: --run-dir DIR or --coordinator HOST:PORT");
}

// Says within a second that the coordinator hangs; it may only be slow.
absl::StatusOr<v1::GetStatusResponse> AskOnce(const AdminClient& client,
                                              const std::string& address) {
  const base::SteadyTime begin = base::Clock::Real().Now();
  auto answer = client.GetStatus(kPrompt);
  // Whoever refuses does so at once.
  if (answer.ok() || base::Clock::Real().Now() - begin < kPrompt) return answer;
  std::fprintf(stderr,
               "the coordinator at %s has not answered for %.1f s: it hangs, "
               "or its machine is overloaded; asks again\n",
               address.c_str(), kPrompt.count());
  answer = client.GetStatus(kPatience);
  if (!absl::IsUnavailable(answer.status())) return answer;
  return absl::UnavailableError(absl::StrCat(
      "the coordinator at ", address, " has not answered for ",
      (kPrompt + kPatience).count(), " s: its process hangs or its host is ",
      "away; a `gimbal train` that watches it starts it again by itself, else ",
      "kill it and start it again, its workers wait for it"));
}

// What came of a run that nobody serves any more; `why` says so, and what can
// be done.
absl::Status PrintEnd(const std::string& run_dir, absl::string_view why) {
  GIMBAL_ASSIGN_OR_RETURN(const RunSummary summary, ReadRunSummary(run_dir));
  std::printf("%s\n\n%s", std::string(why).c_str(),
              FormatSummary(summary).c_str());
  return absl::OkStatus();
}

absl::Status PrintOnce(const AdminClient& client, const std::string& address,
                       bool json) {
  GIMBAL_ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                          AskOnce(client, address));
  const std::string text =
      json ? coordinator::StatusJson(status, /*pretty=*/true)
           : StatusReport(status);
  std::printf("%s", text.c_str());
  return absl::OkStatus();
}

// One JSON object per line with `json`, otherwise as `gimbal train` shows it.
absl::Status WatchRun(const AdminClient& client, const std::string& address,
                      bool json) {
  const SignalQueue signals;
  Display display(Display::OnTerminal(), /*log_every=*/1);
  RunFollower follower(address);
  base::SteadyTime answered = base::Clock::Real().Now();
  while (true) {
    const base::SteadyTime now = base::Clock::Real().Now();
    GIMBAL_ASSIGN_OR_RETURN(const auto status,
                            follower.Take(client.WatchStatus(), now));
    if (status && json) {
      std::printf("%s",
                  coordinator::StatusJson(*status, /*pretty=*/false).c_str());
      std::fflush(stdout);
    } else if (status) {
      display.Show(*status, now);
    }
    if (status) answered = now;
    if (now - answered >= kSilence && !json) {
      answered = now;
      display.Note(absl::StrCat("the coordinator at ", address,
                                " does not answer; asks again"));
    }
    if (status && status->has_exit_code()) return absl::OkStatus();
    if (IsStop(signals.Wait(std::chrono::seconds(1)))) return absl::OkStatus();
  }
}

absl::Status ShowStatus(const StatusOptions& options) {
  const absl::StatusOr<std::string> found = AddressOf(options.target);
  if (absl::IsNotFound(found.status()) && !options.json &&
      PrintEnd(options.target.run_dir, found.status().message()).ok()) {
    return absl::OkStatus();
  }
  GIMBAL_ASSIGN_OR_RETURN(const std::string address, found);
  GIMBAL_ASSIGN_OR_RETURN(const rpc::Credentials credentials,
                          ClientCredentials(options.target.run_dir));
  const AdminClient client(address, credentials);
  return options.watch ? WatchRun(client, address, options.json)
                       : PrintOnce(client, address, options.json);
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
  const absl::Status status = ShowStatus(options);
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

#include "coordinator/cli/admin_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/run_summary.h"
#include "gimbal/v1/admin_service.grpc.pb.h"

namespace gimbal::cli {
namespace {

// What an ask waits for a connection before it says that there is none.
constexpr std::chrono::milliseconds kConnectTime(100);

constexpr std::chrono::milliseconds ToMillis(base::Seconds seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(seconds);
}

// A hung process' kernel still accepts connections, on which gRPC waits in
// vain.
bool IsSilence(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) ||
         (absl::IsUnavailable(status) &&
          absl::StrContains(status.message(), "timed out"));
}

absl::Status ToStatus(const grpc::Status& status, const std::string& address,
                      base::SteadyTime begin) {
  const absl::Status result = rpc::FromGrpc(status);
  // Whoever refuses, for want of TLS say, does so at once.
  if (IsSilence(result)) {
    const base::Seconds silence = base::Clock::Real().Now() - begin;
    return absl::DeadlineExceededError(absl::StrFormat(
        "the coordinator at %s has not answered for %.1f s: its process hangs, "
        "or its host is away or overloaded",
        address, silence.count()));
  }
  if (!absl::IsUnavailable(result)) return result;
  return absl::UnavailableError(absl::StrCat(
      "no answer from a coordinator at ", address, " (", result.message(),
      "); is the run still going, and do both sides use TLS or neither "
      "(GIMBAL_TLS_CA, GIMBAL_TLS_CERT, GIMBAL_TLS_KEY)?"));
}

// Why it ended, when it did.
std::string Reason(const std::string& run_dir) {
  const absl::StatusOr<RunSummary> summary = ReadRunSummary(run_dir);
  return summary.ok() ? absl::StrCat(": it ended: ", summary->exit_reason) : "";
}

bool IsFinished(const std::string& run_dir) {
  const auto config = config::LoadRunConfig(run_dir + "/config.yaml", {});
  if (!config.ok()) return false;
  const std::vector<int64_t> committed = coordinator::CommittedCheckpoints(
      coordinator::CheckpointRoot(run_dir, *config));
  return !committed.empty() && committed.back() >= config->run().steps();
}

absl::Status NotServed(const std::string& run_dir) {
  const std::string dir = ShellWord(run_dir);
  if (IsFinished(run_dir)) {
    return absl::NotFoundError(absl::StrCat(
        run_dir, ": the run has ended, all its updates are done; `gimbal eval ",
        dir, "`, `gimbal generate ", dir,
        "` and `gimbal compare` show what came of it"));
  }
  return absl::NotFoundError(absl::StrCat(
      run_dir, ": no coordinator serves this run now (no coordinator.json)",
      Reason(run_dir), "; `gimbal train --run-dir ", dir,
      " --resume` goes on with it"));
}

}  // namespace

struct AdminClient::Impl {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::AdminService::Stub> stub;

  // gRPC 1.51 finishes a connection only while somebody waits for something,
  // and a call on a channel that has failed does not wait: without this, one
  // that asks now and then hears of a coordinator's second life after 4 s. (Not
  // WaitForConnected: its queue may be gone before the channel lets go of it.)
  void LetItConnect() const {
    if (channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
      return;
    }
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    rpc::SetTimeout(context, kConnectTime);
    v1::GetStatusResponse ignored;
    stub->GetStatus(&context, v1::GetStatusRequest(), &ignored);
  }
};

AdminClient::AdminClient(const std::string& address,
                         const rpc::Credentials& credentials)
    : impl_(std::make_unique<Impl>()) {
  impl_->address = address;
  impl_->channel = rpc::MakeChannel(address, credentials);
  impl_->stub = v1::AdminService::NewStub(impl_->channel);
}

AdminClient::~AdminClient() = default;

absl::StatusOr<v1::GetStatusResponse> AdminClient::GetStatus(
    base::Seconds timeout) const {
  return Ask(/*watching=*/false, timeout);
}

absl::StatusOr<v1::GetStatusResponse> AdminClient::WatchStatus(
    base::Seconds timeout) const {
  return Ask(/*watching=*/true, timeout);
}

absl::StatusOr<v1::GetStatusResponse> AdminClient::Ask(
    bool watching, base::Seconds timeout) const {
  impl_->LetItConnect();
  const base::SteadyTime begin = base::Clock::Real().Now();
  grpc::ClientContext context;
  rpc::SetTimeout(context, ToMillis(timeout));
  v1::GetStatusRequest request;
  request.set_watching(watching);
  v1::GetStatusResponse response;
  const absl::Status status =
      ToStatus(impl_->stub->GetStatus(&context, request, &response),
               impl_->address, begin);
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::CommandResponse> AdminClient::Command(
    const v1::CommandRequest& request, base::Seconds timeout) const {
  impl_->LetItConnect();
  const base::SteadyTime begin = base::Clock::Real().Now();
  grpc::ClientContext context;
  rpc::SetTimeout(context, ToMillis(timeout));
  v1::CommandResponse response;
  const absl::Status status =
      ToStatus(impl_->stub->Command(&context, request, &response),
               impl_->address, begin);
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<ServingCoordinator> ReadCoordinatorFile(
    const std::string& run_dir) {
  const std::string path = run_dir + "/coordinator.json";
  std::error_code error;
  if (!std::filesystem::exists(run_dir + "/config.yaml", error)) {
    return absl::NotFoundError(
        absl::StrCat(run_dir,
                     ": not a run folder (no config.yaml); give --run-dir the "
                     "folder that `gimbal train` made"));
  }
  const absl::StatusOr<std::string> text = io::ReadFile(path);
  if (!text.ok()) return NotServed(run_dir);
  const nlohmann::json json =
      nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("address") ||
      !json["address"].is_string()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": expected {\"address\": \"host:port\", ...}, found ", *text));
  }
  const nlohmann::json pid = json.value("pid", nlohmann::json());
  const nlohmann::json http = json.value("metrics_address", nlohmann::json());
  return ServingCoordinator{
      .address = json["address"].get<std::string>(),
      .metrics_address = http.is_string() ? http.get<std::string>() : "",
      .pid = pid.is_number_integer() ? pid.get<int64_t>() : 0};
}

absl::StatusOr<std::string> CoordinatorAddress(const std::string& run_dir) {
  GIMBAL_ASSIGN_OR_RETURN(const ServingCoordinator serving,
                          ReadCoordinatorFile(run_dir));
  return serving.address;
}

absl::StatusOr<rpc::Credentials> ClientCredentials(const std::string& run_dir) {
  rpc::SecurityFiles files;
  if (!run_dir.empty()) {
    GIMBAL_ASSIGN_OR_RETURN(
        const v1::RunConfig config,
        config::LoadRunConfig(run_dir + "/config.yaml", {}));
    files = rpc::FilesOf(config.cluster());
  }
  return rpc::Credentials::Load(rpc::FromEnvironment(files));
}

}  // namespace gimbal::cli

#include "worker/checkpoint/snapshot_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/snapshot_service.grpc.pb.h"
#include "worker/checkpoint/snapshot_wire.h"

namespace gimbal::worker {
namespace {

// A worker that is gone is noticed by the coordinator long before; this is for
// the one that is there and does not move.
constexpr std::chrono::minutes kTimeout{10};
// To be reached: on a machine under load that takes several attempts, which a
// call alone does not make.
constexpr std::chrono::seconds kConnectTime{4};
constexpr std::chrono::milliseconds kLookAround{100};

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& address, const rpc::Credentials& credentials,
    const std::stop_token& stop) {
  const auto channel = rpc::MakeChannel(address, credentials);
  const auto end = base::Clock::Real().Now() + kConnectTime;
  while (!channel->WaitForConnected(std::chrono::system_clock::now() +
                                    kLookAround)) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (base::Clock::Real().Now() >= end) {
      return absl::UnavailableError(absl::StrCat(
          address, ": nobody answers within ", kConnectTime.count(), " s"));
    }
  }
  return channel;
}

}  // namespace

absl::Status StoreSnapshot(const std::string& address,
                           const rpc::Credentials& credentials,
                           const std::string& run, int64_t generation,
                           int stage, const StageSnapshot& snapshot,
                           std::stop_token stop) {
  GIMBAL_ASSIGN_OR_RETURN(const auto channel,
                          Connect(address, credentials, stop));
  const auto stub = v1::SnapshotService::NewStub(channel);
  grpc::ClientContext context;
  rpc::SetTimeout(context, kTimeout);
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  v1::StoreResponse response;
  const auto writer = stub->Store(&context, &response);
  WriteChunks(
      run, generation, stage, snapshot,
      [&](const v1::SnapshotChunk& chunk) { return writer->Write(chunk); });
  writer->WritesDone();
  return rpc::FromGrpc(writer->Finish());
}

absl::StatusOr<std::shared_ptr<const StageSnapshot>> FetchSnapshot(
    const std::string& address, const rpc::Credentials& credentials,
    const std::string& run, int stage, int64_t update, std::stop_token stop) {
  GIMBAL_ASSIGN_OR_RETURN(const auto channel,
                          Connect(address, credentials, stop));
  const auto stub = v1::SnapshotService::NewStub(channel);
  grpc::ClientContext context;
  rpc::SetTimeout(context, kTimeout);
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  v1::FetchRequest request;
  request.set_run_id(run);
  request.set_stage(stage);
  request.set_update(update);
  const auto reader = stub->Fetch(&context, request);
  SnapshotAssembler assembler;
  absl::Status status;
  v1::SnapshotChunk chunk;
  while (status.ok() && reader->Read(&chunk)) status = assembler.Add(chunk);
  if (!status.ok()) context.TryCancel();
  const absl::Status finished = rpc::FromGrpc(reader->Finish());
  GIMBAL_RETURN_IF_ERROR(status);
  GIMBAL_RETURN_IF_ERROR(finished);
  const v1::SnapshotHeader* header = assembler.header();
  if (header == nullptr || header->run_id() != run ||
      header->stage() != stage || header->update() != update) {
    return absl::DataLossError(
        absl::StrCat(address, " sent another snapshot than that of stage ",
                     stage, " at update ", update));
  }
  return assembler.Finish();
}

}  // namespace gimbal::worker

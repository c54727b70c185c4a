#include "worker/checkpoint/coordinator_store.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/sha256.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/checkpoint_service.grpc.pb.h"

namespace gimbal::worker {
namespace {

// For one file, of a coordinator that is there and does not move.
constexpr std::chrono::minutes kTimeout{10};
constexpr std::chrono::milliseconds kRetryPause{500};

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status);
}

}  // namespace

struct CoordinatorStore::Impl {
  explicit Impl(Options given)
      : options(std::move(given)),
        stub(v1::CheckpointService::NewStub(
            rpc::MakeChannel(options.coordinator, options.credentials))) {}

  absl::StatusOr<io::WrittenFile> Put(int64_t update, const std::string& file,
                                      std::span<const io::TensorView> tensors);
  absl::StatusOr<std::string> Get(int64_t update, const std::string& file);
  // Calls `attempt` until it succeeds, fails for good or the store is stopped.
  template <typename Attempt>
  auto Persist(const std::string& what, const Attempt& attempt)
      -> decltype(attempt());
  std::string NameOf(int64_t update, const std::string& file) const {
    return absl::StrCat("coordinator ", options.coordinator, ": ",
                        io::StepFolderName(update), "/", file);
  }

  const Options options;
  const std::unique_ptr<v1::CheckpointService::Stub> stub;
};

template <typename Attempt>
auto CoordinatorStore::Impl::Persist(const std::string& what,
                                     const Attempt& attempt)
    -> decltype(attempt()) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::string told;
  for (;;) {
    auto result = attempt();
    if (options.stop.stop_requested()) {
      return absl::CancelledError(absl::StrCat(what, ": stopped"));
    }
    if (result.ok() || !MayPass(result.status())) return result;
    const std::string why(result.status().message());
    if (why != told) {
      base::LogWarning(absl::StrCat(what, ": ", why, "; tries again"));
      told = why;
    }
    std::unique_lock lock(mutex);
    changed.wait_for(lock, options.stop, kRetryPause, [] { return false; });
  }
}

absl::StatusOr<io::WrittenFile> CoordinatorStore::Impl::Put(
    int64_t update, const std::string& file,
    std::span<const io::TensorView> tensors) {
  grpc::ClientContext context;
  rpc::SetTimeout(context, kTimeout);
  const std::stop_callback cancel(options.stop, [&] { context.TryCancel(); });
  v1::PutResponse response;
  const auto writer = stub->Put(&context, &response);
  // Why a chunk was not taken, the end of the call says, unless that is ours.
  bool open = true;
  v1::PutChunk chunk;
  const Sender sender = options.sender();
  v1::PutHeader& header = *chunk.mutable_header();
  header.set_run_id(options.run_id);
  header.set_worker_id(sender.worker_id);
  header.set_incarnation(sender.incarnation);
  header.set_update(update);
  header.set_path(file);
  open = writer->Write(chunk);
  auto written = io::FormatSafetensors(
      NameOf(update, file), tensors, MetadataOf(update),
      [&](const void* data, size_t bytes) {
        chunk.set_data(data, bytes);
        open = open && writer->Write(chunk);
        return open ? absl::OkStatus() : absl::UnavailableError("not taken");
      });
  absl::Status mine = open ? written.status() : absl::OkStatus();
  if (open && mine.ok() && options.may_write) mine = options.may_write();
  if (open && mine.ok()) {
    chunk.set_sha256(written->sha256);
    writer->Write(chunk);
  } else if (open) {
    context.TryCancel();
  }
  writer->WritesDone();
  const absl::Status finished = rpc::FromGrpc(writer->Finish());
  // Not to be tried again, whatever its code.
  if (!mine.ok()) return absl::CancelledError(mine.message());
  GIMBAL_RETURN_IF_ERROR(finished);
  return written;
}

absl::StatusOr<std::string> CoordinatorStore::Impl::Get(
    int64_t update, const std::string& file) {
  grpc::ClientContext context;
  rpc::SetTimeout(context, kTimeout);
  const std::stop_callback cancel(options.stop, [&] { context.TryCancel(); });
  v1::GetRequest request;
  request.set_run_id(options.run_id);
  request.set_update(update);
  request.set_path(file);
  const auto reader = stub->Get(&context, request);
  std::string content, sha256;
  v1::GetChunk chunk;
  while (reader->Read(&chunk)) {
    content += chunk.data();
    sha256 = chunk.sha256();
  }
  GIMBAL_RETURN_IF_ERROR(rpc::FromGrpc(reader->Finish()));
  io::Sha256Stream hash;
  hash.Update(content.data(), content.size());
  if (hash.Finish() == sha256) return content;
  return absl::DataLossError(
      absl::StrCat(NameOf(update, file), ": did not arrive as it was sent"));
}

CoordinatorStore::CoordinatorStore(Options options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CoordinatorStore::~CoordinatorStore() = default;

absl::StatusOr<io::WrittenFile> CoordinatorStore::Write(
    int64_t update, const std::string& file,
    std::span<const io::TensorView> tensors) {
  return impl_->Persist(impl_->NameOf(update, file),
                        [&] { return impl_->Put(update, file, tensors); });
}

absl::StatusOr<io::SafetensorsFile> CoordinatorStore::Open(
    int64_t update, const std::string& file) {
  const std::string name = impl_->NameOf(update, file);
  GIMBAL_ASSIGN_OR_RETURN(std::string content, impl_->Persist(name, [&] {
    return impl_->Get(update, file);
  }));
  return io::SafetensorsFile::FromContent(name, std::move(content));
}

}  // namespace gimbal::worker

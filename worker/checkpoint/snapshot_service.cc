#include "worker/checkpoint/snapshot_service.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/snapshot_service.grpc.pb.h"
#include "worker/checkpoint/snapshot_wire.h"

namespace gimbal::worker {
namespace {

class SnapshotService final : public v1::SnapshotService::Service {
 public:
  explicit SnapshotService(SnapshotStore& store) : store_(store) {}

  grpc::Status Store(grpc::ServerContext*,
                     grpc::ServerReader<v1::SnapshotChunk>* reader,
                     v1::StoreResponse*) override {
    return Answer("Store", [&] { return Take(*reader); });
  }

  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::SnapshotChunk>* writer) override {
    return Answer("Fetch", [&] { return Give(*request, *writer); });
  }

  void Observe(rpc::CallObserver observer) {
    std::lock_guard lock(mutex_);
    observer_ = std::move(observer);
  }

 private:
  grpc::Status Answer(const char* method,
                      const std::function<absl::Status()>& call) {
    base::Stopwatch watch;
    const absl::Status status = call();
    std::lock_guard lock(mutex_);
    if (observer_) observer_(method, status, base::Seconds(watch.Lap()));
    return rpc::ToGrpc(status);
  }

  absl::Status Give(const v1::FetchRequest& request,
                    grpc::ServerWriter<v1::SnapshotChunk>& writer) {
    const auto snapshot =
        store_.Find(request.run_id(), request.stage(), request.update());
    if (snapshot == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("no snapshot of stage ", request.stage(), " at update ",
                       request.update(), " of run ", request.run_id()));
    }
    WriteChunks(
        request.run_id(), 0, request.stage(), *snapshot,
        [&](const v1::SnapshotChunk& chunk) { return writer.Write(chunk); });
    return absl::OkStatus();
  }

  absl::Status Take(grpc::ServerReader<v1::SnapshotChunk>& reader) {
    SnapshotAssembler assembler;
    v1::SnapshotChunk chunk;
    while (reader.Read(&chunk)) {
      GIMBAL_RETURN_IF_ERROR(assembler.Add(chunk));
      if (!chunk.has_header()) continue;
      // Before the rest of it is sent.
      GIMBAL_RETURN_IF_ERROR(store_.Admits(assembler.header()->run_id(),
                                           assembler.header()->generation()));
    }
    GIMBAL_ASSIGN_OR_RETURN(auto snapshot, assembler.Finish());
    const v1::SnapshotHeader& header = *assembler.header();
    return store_.Put(header.run_id(), header.generation(), header.stage(),
                      std::move(snapshot));
  }

  SnapshotStore& store_;
  std::mutex mutex_;
  rpc::CallObserver observer_;  // guarded by mutex_
};

}  // namespace

struct SnapshotServer::Impl {
  explicit Impl(SnapshotStore& store) : service(store) {}
  SnapshotService service;
  std::optional<rpc::Server> server;  // ends before the service
};

SnapshotServer::SnapshotServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
SnapshotServer::~SnapshotServer() = default;

absl::StatusOr<std::unique_ptr<SnapshotServer>> SnapshotServer::Start(
    const std::string& address, const rpc::Credentials& credentials,
    SnapshotStore& store) {
  auto impl = std::make_unique<Impl>(store);
  GIMBAL_ASSIGN_OR_RETURN(impl->server,
                          rpc::Server::Start({.address = address,
                                              .services = {&impl->service},
                                              .credentials = credentials}));
  return std::unique_ptr<SnapshotServer>(new SnapshotServer(std::move(impl)));
}

void SnapshotServer::Observe(rpc::CallObserver observer) {
  impl_->service.Observe(std::move(observer));
}

const std::string& SnapshotServer::address() const {
  return impl_->server->address();
}

}  // namespace gimbal::worker

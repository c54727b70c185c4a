// Serves a worker's snapshots to other workers. gRPC stays behind this header.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/call_observer.h"
#include "common/rpc/credentials.h"
#include "worker/checkpoint/snapshot_store.h"

namespace gimbal::worker {

class SnapshotServer {
 public:
  // At host:port; port 0 picks a free one. `store` must outlive the server.
  static absl::StatusOr<std::unique_ptr<SnapshotServer>> Start(
      const std::string& address, const rpc::Credentials& credentials,
      SnapshotStore& store);
  // Ends calls in progress.
  ~SnapshotServer();

  const std::string& address() const;

  // From now on, of every call; null: nobody. No call of the observer before is
  // in progress when this returns.
  void Observe(rpc::CallObserver observer);

 private:
  struct Impl;
  explicit SnapshotServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker

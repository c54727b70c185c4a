// Checkpoint files that travel to the coordinator and back
// (proto/gimbal/v1/checkpoint_service.proto): for workers that share no file
// system with it. A file is read into memory as a whole. gRPC stays behind this
// header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/rpc/credentials.h"
#include "worker/checkpoint/checkpoint_store.h"

namespace gimbal::worker {

class CoordinatorStore final : public CheckpointStore {
 public:
  struct Sender {
    int64_t worker_id = 0;
    int64_t incarnation = 0;
  };
  struct Options {
    std::string coordinator;  // host:port
    rpc::Credentials credentials;
    std::string run_id;
    // As whom the worker is registered now; another one after every loss of
    // the coordinator.
    std::function<Sender()> sender;
    // As for SharedFolder.
    std::function<absl::Status()> may_write = {};
    // Ends what is waited for with CANCELLED.
    std::stop_token stop;
  };

  explicit CoordinatorStore(Options options);
  ~CoordinatorStore() override;

  // Both try again, until told to stop, while there is no coordinator or it
  // does not know the worker yet: the session is what ends a worker.
  absl::StatusOr<io::WrittenFile> Write(
      int64_t update, const std::string& file,
      std::span<const io::TensorView> tensors) override;
  absl::StatusOr<io::SafetensorsFile> Open(int64_t update,
                                           const std::string& file) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker

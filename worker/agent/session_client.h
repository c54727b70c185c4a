// The worker's end of the control plane: registers, then holds the session
// stream. gRPC stays behind this header.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"
#include "gimbal/v1/control_service.pb.h"

namespace gimbal::worker {

// Thread-safe.
class SessionClient {
 public:
  // Registers, trying again with backoff while the coordinator is not there,
  // and opens the session. Ends with CANCELLED when `cancelled`,
  // DEADLINE_EXCEEDED after `patience`, and at once with the coordinator's
  // reason when it refuses.
  static absl::StatusOr<std::unique_ptr<SessionClient>> Connect(
      const std::string& coordinator, const rpc::Credentials& credentials,
      const v1::RegisterRequest& request, std::chrono::seconds patience,
      const std::function<bool()>& cancelled);
  // Ends the session.
  ~SessionClient();

  const v1::RegisterResponse& registration() const;

  // Queues a message; fills in worker id and incarnation. Never blocks; what is
  // sent after the session's end is dropped.
  void Send(v1::WorkerMessage message);
  // Next message from the coordinator; nothing after `timeout`; an error once
  // the session has ended.
  absl::StatusOr<std::optional<v1::CoordinatorMessage>> Receive(
      std::chrono::milliseconds timeout);

  // Asks the coordinator to stop the run at a checkpoint.
  absl::Status RequestStop(const std::string& reason);

 private:
  class Stream;
  struct Impl;
  explicit SessionClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker

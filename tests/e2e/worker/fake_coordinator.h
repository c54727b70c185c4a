// A coordinator that says to its one worker what a test wants it to say.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/rpc/server.h"
#include "gimbal/v1/admin_service.grpc.pb.h"
#include "gimbal/v1/control_service.grpc.pb.h"

namespace gimbal::test_support {

// Thread-safe.
class FakeCoordinator final : private v1::ControlService::Service,
                              private v1::AdminService::Service {
 public:
  FakeCoordinator();
  ~FakeCoordinator() override;

  const std::string& address() const { return server_->address(); }

  // The worker's registrations so far.
  std::vector<v1::RegisterRequest> registrations();
  // Commands (requests to stop) so far; each is answered by `answer`, UNKNOWN
  // by default: never, until the end.
  int commands();
  void AnswerCommands(std::function<absl::Status(int number)> answer);

  // From now on every registration is answered so.
  void RefuseWorkers(const absl::Status& status);

  // To the session that is open.
  void Send(v1::CoordinatorMessage message);
  // Ends it.
  void EndSession(const absl::Status& status);

  // Waits for a message of the worker that satisfies the condition, or for one
  // of the facts above to do so; false after 30 s.
  bool Await(const std::function<bool(const v1::WorkerMessage&)>& condition);
  bool AwaitThat(const std::function<bool()>& condition);

 private:
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*,
                        v1::RegisterResponse*) override;
  grpc::Status Session(grpc::ServerContext*,
                       grpc::ServerReaderWriter<v1::CoordinatorMessage,
                                                v1::WorkerMessage>*) override;
  grpc::Status Command(grpc::ServerContext*, const v1::CommandRequest*,
                       v1::CommandResponse*) override;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<v1::RegisterRequest> registrations_;
  absl::Status refusal_;
  int commands_ = 0;
  std::function<absl::Status(int)> answer_;
  std::deque<v1::WorkerMessage> received_;
  std::deque<v1::CoordinatorMessage> outgoing_;
  std::optional<absl::Status> end_;
  std::optional<rpc::Server> server_;
};

}  // namespace gimbal::test_support

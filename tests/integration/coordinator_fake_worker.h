// A worker without tensors that speaks the session protocol over loopback: its
// losses and files are pure functions of the update, as those of a real one.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "gimbal/v1/control_service.pb.h"
#include "worker/agent/session_client.h"

namespace gimbal::coordinator {

class FakeWorker {
 public:
  // Registers in its own thread.
  FakeWorker(std::string coordinator, std::string name);
  // Dies like a killed process: the stream breaks, nothing is said.
  ~FakeWorker();

  // Set when the coordinator ended the session.
  std::optional<int> exit_code() const;

 private:
  void Run();
  void Handle(const v1::CoordinatorMessage& message);
  void Assign(const v1::CoordinatorMessage& message);
  void Rewire(int64_t generation);
  void Train(const v1::Grant& grant);
  void Update(int stage, int64_t update, const v1::Cut& cut);
  void WriteSnapshot(int stage, int64_t update);
  void Send(v1::WorkerMessage message);

  const std::string coordinator_;
  const std::string name_;
  std::unique_ptr<worker::SessionClient> session_;
  v1::Assignment assignment_;
  int64_t generation_ = 0;
  std::map<int, int64_t> versions_;  // by hosted stage
  std::atomic<bool> killed_ = false;
  std::atomic<int> exit_code_ = -1;
  std::thread thread_;
};

}  // namespace gimbal::coordinator

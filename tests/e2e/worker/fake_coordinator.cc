#include "tests/e2e/worker/fake_coordinator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "common/rpc/status_conversion.h"

namespace gimbal::test_support {

using std::chrono::seconds;

FakeCoordinator::FakeCoordinator() {
  auto server = rpc::Server::Start(
      {.address = "127.0.0.1:0",
       .services = {static_cast<v1::ControlService::Service*>(this),
                    static_cast<v1::AdminService::Service*>(this)}});
  EXPECT_TRUE(server.ok()) << server.status();
  server_.emplace(*std::move(server));
}

FakeCoordinator::~FakeCoordinator() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  server_->Shutdown(std::chrono::milliseconds(0));
}

std::vector<v1::RegisterRequest> FakeCoordinator::registrations() {
  std::lock_guard lock(mutex_);
  return registrations_;
}

int FakeCoordinator::commands() {
  std::lock_guard lock(mutex_);
  return commands_;
}

void FakeCoordinator::AnswerCommands(
    std::function<absl::Status(int number)> answer) {
  std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

void FakeCoordinator::RefuseWorkers(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  refusal_ = status;
}

void FakeCoordinator::Send(v1::CoordinatorMessage message) {
  std::lock_guard lock(mutex_);
  outgoing_.push_back(std::move(message));
  changed_.notify_all();
}

void FakeCoordinator::EndSession(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  end_ = status;
  changed_.notify_all();
}

bool FakeCoordinator::Await(
    const std::function<bool(const v1::WorkerMessage&)>& condition) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, seconds(30), [&] {
    for (; !received_.empty(); received_.pop_front()) {
      if (condition(received_.front())) return true;
    }
    return false;
  });
}

bool FakeCoordinator::AwaitThat(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

grpc::Status FakeCoordinator::Register(grpc::ServerContext*,
                                       const v1::RegisterRequest* request,
                                       v1::RegisterResponse* response) {
  std::lock_guard lock(mutex_);
  registrations_.push_back(*request);
  if (!refusal_.ok()) return rpc::ToGrpc(refusal_);
  response->set_run_id("fake-run");
  response->set_worker_id(static_cast<int64_t>(registrations_.size()));
  response->set_incarnation(response->worker_id());
  response->mutable_lease()->set_seconds(3);
  return grpc::Status::OK;
}

// The worker's heartbeats are the clock: after each it hears what is due.
grpc::Status FakeCoordinator::Session(
    grpc::ServerContext*,
    grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>*
        stream) {
  for (v1::WorkerMessage message; stream->Read(&message);) {
    std::unique_lock lock(mutex_);
    received_.push_back(message);
    changed_.notify_all();
    if (end_) return rpc::ToGrpc(*std::exchange(end_, std::nullopt));
    const std::deque<v1::CoordinatorMessage> due = std::move(outgoing_);
    outgoing_.clear();
    lock.unlock();
    for (const v1::CoordinatorMessage& out : due) stream->Write(out);
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Command(grpc::ServerContext*,
                                      const v1::CommandRequest*,
                                      v1::CommandResponse*) {
  std::unique_lock lock(mutex_);
  const int number = ++commands_;
  if (answer_) return rpc::ToGrpc(answer_(number));
  changed_.wait(lock, [&] { return over_; });
  return grpc::Status(grpc::StatusCode::UNKNOWN, "over");
}

}  // namespace gimbal::test_support

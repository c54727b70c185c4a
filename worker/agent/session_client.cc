#include "worker/agent/session_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/admin_service.grpc.pb.h"
#include "gimbal/v1/control_service.grpc.pb.h"

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTimeout{5000};

}  // namespace

// The session stream: one write and one read in flight, both from queues.
class SessionClient::Stream final
    : public grpc::ClientBidiReactor<v1::WorkerMessage,
                                     v1::CoordinatorMessage> {
 public:
  explicit Stream(v1::ControlService::Stub& stub) {
    stub.async()->Session(&context_, this);
    StartRead(&incoming_);
    StartCall();
  }
  // Cancels the call and waits until gRPC has let go of this object.
  ~Stream() override {
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }

  void Send(v1::WorkerMessage message) {
    std::lock_guard lock(mutex_);
    if (done_ || failed_) return;
    queue_.push_back(std::move(message));
    WriteNext();
  }

  absl::StatusOr<std::optional<v1::CoordinatorMessage>> Receive(
      milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return done_ || !inbox_.empty(); });
    if (!inbox_.empty()) {
      std::optional<v1::CoordinatorMessage> message(std::move(inbox_.front()));
      inbox_.pop_front();
      return message;
    }
    if (!done_) return std::optional<v1::CoordinatorMessage>();
    if (status_.ok()) {
      return absl::UnavailableError("the coordinator ended the session");
    }
    return status_;
  }

 private:
  // Requires the lock.
  void WriteNext() {
    if (writing_ || failed_ || queue_.empty()) return;
    writing_ = true;
    StartWrite(&queue_.front());
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    failed_ = !ok;
    queue_.pop_front();
    WriteNext();
  }
  void OnReadDone(bool ok) override {
    std::lock_guard lock(mutex_);
    if (!ok) return;
    inbox_.push_back(std::move(incoming_));
    incoming_.Clear();
    StartRead(&incoming_);
    changed_.notify_all();
  }
  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    status_ = rpc::FromGrpc(status);
    done_ = true;
    changed_.notify_all();
  }

  grpc::ClientContext context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::WorkerMessage> queue_;
  bool writing_ = false;
  bool failed_ = false;
  v1::CoordinatorMessage incoming_;
  std::deque<v1::CoordinatorMessage> inbox_;
  bool done_ = false;
  absl::Status status_;
};

struct SessionClient::Impl {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::ControlService::Stub> stub;
  v1::RegisterResponse registration;
  std::unique_ptr<Stream> stream;
};

SessionClient::SessionClient(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
SessionClient::~SessionClient() = default;

absl::StatusOr<std::unique_ptr<SessionClient>> SessionClient::Connect(
    const std::string& coordinator, const rpc::Credentials& credentials,
    const v1::RegisterRequest& request, std::chrono::seconds patience,
    const std::function<bool()>& cancelled) {
  const base::Clock& clock = base::Clock::Real();
  const auto deadline = clock.Now() + patience;
  auto impl = std::make_unique<Impl>();
  std::string told;
  for (milliseconds pause{50};;
       pause = std::min(pause * 2, milliseconds(1000))) {
    // A channel that is kept would ask for the address again only after half a
    // minute, or later still when there was none.
    impl->channel = rpc::MakeChannel(coordinator, credentials);
    impl->stub = v1::ControlService::NewStub(impl->channel);
    grpc::ClientContext context;
    rpc::SetTimeout(context, kCallTimeout);
    const absl::Status status = rpc::FromGrpc(
        impl->stub->Register(&context, request, &impl->registration));
    if (status.ok()) break;
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) {
      return status;
    }
    const std::string why(status.message());
    if (std::exchange(told, why) != why) {
      base::LogInfo(absl::StrCat("waits for the coordinator at ", coordinator,
                                 ": ", why));
    }
    for (const auto until = clock.Now() + pause; clock.Now() < until;
         std::this_thread::sleep_for(milliseconds(10))) {
      if (cancelled()) return absl::CancelledError("interrupted");
    }
    if (clock.Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no coordinator at ", coordinator, " for ", patience.count(),
          " s: ", absl::string_view(status.message())));
    }
  }
  impl->stream = std::make_unique<Stream>(*impl->stub);
  auto client =
      std::unique_ptr<SessionClient>(new SessionClient(std::move(impl)));
  // The first message tells the coordinator whose session this is.
  v1::WorkerMessage hello;
  hello.mutable_heartbeat();
  client->Send(std::move(hello));
  return client;
}

const v1::RegisterResponse& SessionClient::registration() const {
  return impl_->registration;
}

void SessionClient::Send(v1::WorkerMessage message) {
  message.set_worker_id(impl_->registration.worker_id());
  message.set_incarnation(impl_->registration.incarnation());
  impl_->stream->Send(std::move(message));
}

absl::StatusOr<std::optional<v1::CoordinatorMessage>> SessionClient::Receive(
    milliseconds timeout) {
  return impl_->stream->Receive(timeout);
}

absl::Status SessionClient::RequestStop(const std::string& reason) {
  auto stub = v1::AdminService::NewStub(impl_->channel);
  grpc::ClientContext context;
  rpc::SetTimeout(context, kCallTimeout);
  v1::CommandRequest request;
  request.set_verb(v1::CommandRequest::VERB_STOP);
  request.set_reason(reason);
  v1::CommandResponse response;
  return rpc::FromGrpc(stub->Command(&context, request, &response));
}

}  // namespace gimbal::worker

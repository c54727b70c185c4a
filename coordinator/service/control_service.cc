#include "coordinator/service/control_service.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/address.h"
#include "common/net/socket.h"
#include "common/rpc/status_conversion.h"
#include "common/trace/clock.h"
#include "gimbal/v1/control_service.grpc.pb.h"

namespace gimbal::coordinator {
namespace {

base::SteadyTime Now() { return base::Clock::Real().Now(); }

// At once, and with the time that the message stood in the queue.
void EchoClock(Session& session, const v1::Heartbeat& heartbeat,
               base::SteadyTime arrived) {
  if (heartbeat.clock_ns() == 0) return;
  v1::CoordinatorMessage message;
  v1::ClockEcho& echo = *message.mutable_clock_echo();
  echo.set_sent_ns(heartbeat.clock_ns());
  echo.set_received_ns(trace::ClockNs(arrived));
  echo.set_answered_ns(trace::ClockNs(Now()));
  echo.set_clock(trace::ClockId());
  session.Send(message);
}

bool IsOfThisMachine(const std::string& host) {
  return net::IsLoopback(host) || net::ListenOn(host + ":0").ok();
}

// A worker that listens on every address of its machine cannot say which of
// them leads there; its connection does. And whose port is on its loopback does
// not know whether whoever reads its metrics is there, too.
v1::RegisterRequest WithMetricsHost(v1::RegisterRequest request,
                                    const std::string& peer, const Core& core) {
  std::string host = net::HostOfPeer(peer);
  const bool here = host.empty() || IsOfThisMachine(host);
  if (net::IsLoopback(host) && !core.advertise.empty()) host = core.advertise;
  const std::string address =
      net::ScrapeAddress(request.metrics_address(), host, here);
  if (address.empty() && !request.metrics_address().empty()) {
    base::LogWarning(absl::StrCat(
        "the metrics of worker ", request.name(), " at ", host, " are at ",
        request.metrics_address(),
        ", which only its own machine can read; they are no scrape target "
        "(gimbal-worker --metrics-listen ",
        host, ":0)"));
  }
  request.set_metrics_address(address);
  return request;
}

void Receive(Core& core, const std::shared_ptr<Session>& session,
             const v1::WorkerMessage& message, base::SteadyTime arrived) {
  absl::Status status;
  if (core.run == nullptr) {
    status = absl::UnavailableError("the coordinator is starting");
  } else if (!core.sessions.Bind(message.worker_id(), session)) {
    status = absl::AbortedError(
        "the worker has another session, or the coordinator shuts down");
  } else {
    status = core.run->Receive(message, arrived);
    if (status.ok()) EchoClock(*session, message.heartbeat(), arrived);
  }
  core.Answered("Session", status, Now() - arrived);
  if (status.ok()) return;
  core.sessions.Unbind(session);
  session->Close(status);
}

void Ended(Core& core, const std::shared_ptr<Session>& session) {
  const std::optional<int64_t> worker = core.sessions.Unbind(session);
  if (!worker.has_value() || core.run == nullptr) return;
  core.run->SessionEnded(*worker, Now());
}

// One session. gRPC holds it through self_ until OnDone, the hub as long as it
// is bound.
class SessionStream final
    : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>,
      public Session {
 public:
  static SessionStream* Open(EventLoop& loop, Core& core) {
    auto stream = std::shared_ptr<SessionStream>(new SessionStream(loop, core));
    stream->self_ = stream;
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  void Send(const v1::CoordinatorMessage& message) override {
    {
      std::lock_guard lock(mutex_);
      if (closing_.has_value()) return;
      outgoing_.push_back(message);
    }
    Advance();
  }

  void Close(const absl::Status& status) override {
    {
      std::lock_guard lock(mutex_);
      if (closing_.has_value()) return;
      closing_ = status;
    }
    Advance();
  }

 private:
  SessionStream(EventLoop& loop, Core& core) : loop_(loop), core_(core) {}

  void OnReadDone(bool ok) override {
    if (!ok) {
      PostEnded();
      Close(absl::OkStatus());
      return;
    }
    auto message = std::make_shared<v1::WorkerMessage>();
    message->Swap(&incoming_);
    loop_.Post([core = &core_, self = self_, message, arrived = Now()] {
      Receive(*core, self, *message, arrived);
    });
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok) outgoing_.clear();
    }
    Advance();
  }

  void OnCancel() override {
    PostEnded();
    Close(absl::CancelledError("the worker is gone"));
  }

  void OnDone() override {
    const std::shared_ptr<SessionStream> last = std::move(self_);
  }

  void PostEnded() {
    loop_.Post([core = &core_, self = self_] { Ended(*core, self); });
  }

  // Starts the next write, or finishes when there is none left.
  void Advance() {
    std::unique_lock lock(mutex_);
    if (writing_ || finished_) return;
    if (!outgoing_.empty()) {
      current_ = std::move(outgoing_.front());
      outgoing_.pop_front();
      writing_ = true;
      lock.unlock();
      StartWrite(&current_);
    } else if (closing_.has_value()) {
      finished_ = true;
      const grpc::Status status = rpc::ToGrpc(*closing_);
      lock.unlock();
      Finish(status);
    }
  }

  EventLoop& loop_;
  Core& core_;
  std::shared_ptr<SessionStream> self_;
  v1::WorkerMessage incoming_;
  v1::CoordinatorMessage current_;  // being written

  std::mutex mutex_;
  std::deque<v1::CoordinatorMessage> outgoing_;  // guarded by mutex_
  std::optional<absl::Status> closing_;          // guarded by mutex_
  bool writing_ = false;                         // guarded by mutex_
  bool finished_ = false;                        // guarded by mutex_
};

class ControlService final : public v1::ControlService::CallbackService {
 public:
  ControlService(EventLoop& loop, Core& core) : loop_(loop), core_(core) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop_.Post([core = &core_, reactor, request, response,
                peer = context->peer(), arrived = Now()] {
      absl::StatusOr<v1::RegisterResponse> result =
          absl::UnavailableError("the coordinator is starting");
      if (core->run != nullptr) {
        result =
            core->run->Register(WithMetricsHost(*request, peer, *core), Now());
      }
      if (result.ok()) *response = *result;
      core->Answered("Register", result.status(), Now() - arrived);
      reactor->Finish(rpc::ToGrpc(result.status()));
    });
    return reactor;
  }

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext*) override {
    return SessionStream::Open(loop_, core_);
  }

 private:
  EventLoop& loop_;
  Core& core_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeControlService(EventLoop& loop, Core& core) {
  return std::make_shared<ControlService>(loop, core);
}

}  // namespace gimbal::coordinator

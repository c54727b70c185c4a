#include "worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/status_macros.h"
#include "worker/agent/heartbeat.h"
#include "worker/compute/runtime.h"

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

// How often reports leave, a bound on the age of what the coordinator shows.
constexpr milliseconds kReportInterval{50};

// 0 without a session.
milliseconds LeaseOf(const SessionClient* session) {
  if (session == nullptr) return milliseconds(0);
  const auto& lease = session->registration().lease();
  return milliseconds(lease.seconds() * 1000 + lease.nanos() / 1000000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(
    const Options& options, const std::atomic<int>& signals) {
  GIMBAL_ASSIGN_OR_RETURN(auto metrics_server,
                          obs::MetricsServer::Start(options.metrics_listen));
  GIMBAL_ASSIGN_OR_RETURN(auto listener, LinkListener::Start(options.listen));
  return std::unique_ptr<Worker>(new Worker(
      options, signals, std::move(metrics_server), std::move(listener)));
}

Worker::Worker(const Options& options, const std::atomic<int>& signals,
               std::unique_ptr<obs::MetricsServer> metrics_server,
               std::unique_ptr<LinkListener> listener)
    : options_(options),
      signals_(signals),
      metrics_server_(std::move(metrics_server)),
      listener_(std::move(listener)) {
  heartbeat_ = std::thread([this] { HeartbeatLoop(); });
}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  heartbeat_.join();
  Replace(nullptr);
}

absl::StatusOr<int> Worker::Run() {
  for (;;) {
    GIMBAL_ASSIGN_OR_RETURN(std::shared_ptr<SessionClient> session, Register());
    absl::StatusOr<int> code = FollowSession(*session);
    // Unavailable: the coordinator is gone, and the assignment cannot go on
    // without its grants. Aborted: it has given this worker up, but may have
    // use for a new one.
    if (code.ok() || (!absl::IsUnavailable(code.status()) &&
                      !absl::IsAborted(code.status()))) {
      return code;
    }
    base::LogWarning(absl::StrCat("lost the coordinator: ",
                                  absl::string_view(code.status().message())));
    Replace(nullptr);
    if (signals_ > 0) return absl::CancelledError("interrupted");
  }
}

absl::StatusOr<std::shared_ptr<SessionClient>> Worker::Register() {
  v1::RegisterRequest request;
  request.set_name(options_.name);
  request.set_data_address(listener_->address());
  request.set_metrics_address(metrics_server_->address());
  request.set_pid(getpid());
  request.set_numerics(compute::NumericsTag());
  GIMBAL_ASSIGN_OR_RETURN(
      std::shared_ptr<SessionClient> session,
      SessionClient::Connect(options_.coordinator, request, options_.patience,
                             [this] { return signals_ > 0; }));
  base::LogInfo(absl::StrCat(
      "registered as worker ", session->registration().worker_id(), " of run ",
      session->registration().run_id(), "; links at ", listener_->address(),
      ", metrics at http://", metrics_server_->address(), "/metrics"));
  std::lock_guard lock(mutex_);
  if (metrics_ == nullptr) {
    metrics_ = std::make_unique<WorkerMetrics>(
        metrics_server_->registry(), session->registration().run_id());
  }
  session_ = session;
  changed_.notify_all();
  return session;
}

absl::StatusOr<int> Worker::FollowSession(SessionClient& session) {
  int signals_seen = 0;
  for (;;) {
    GIMBAL_ASSIGN_OR_RETURN(std::optional<v1::CoordinatorMessage> message,
                            session.Receive(kReportInterval));
    if (message && message->has_shutdown()) {
      base::LogInfo(absl::StrCat("the coordinator ends the run: ",
                                 message->shutdown().reason()));
      Replace(nullptr);
      return message->shutdown().exit_code();
    }
    if (message) Handle(session, std::move(*message));
    if (run_ != nullptr) run_->FlushReports();
    if (signals_ > signals_seen) {
      if (++signals_seen > 1) return absl::CancelledError("interrupted twice");
      GIMBAL_RETURN_IF_ERROR(session.RequestStop(
          absl::StrCat(options_.name, " was asked to terminate")));
    }
  }
}

void Worker::Handle(SessionClient& session, v1::CoordinatorMessage message) {
  if (message.has_assignment()) {
    Replace(nullptr);
    const auto& stages = message.assignment().stages();
    base::LogInfo(
        absl::StrCat("generation ", message.generation(), ": ",
                     stages.empty() ? "hot spare"
                                    : absl::StrCat("stages ", stages[0], " to ",
                                                   stages[stages.size() - 1]),
                     " from update ", message.assignment().start_update()));
    if (stages.empty()) return;
    Replace(std::make_shared<AssignmentRun>(
        message.generation(), std::move(*message.mutable_assignment()),
        *listener_,
        [&session](v1::WorkerMessage out) { session.Send(std::move(out)); }));
  } else if (message.has_grant() && run_ != nullptr &&
             run_->generation() == message.generation()) {
    run_->Extend(message.grant());
  }
}

void Worker::Replace(std::shared_ptr<AssignmentRun> run) {
  {
    std::lock_guard lock(mutex_);
    std::swap(run_, run);
  }
  // The old one ends here or, when a heartbeat is looking at it, right after.
}

void Worker::HeartbeatLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    SendHeartbeat();
    lock.lock();
    // A new session wakes it up: its lease may be a shorter one.
    const auto seen = session_;
    changed_.wait_for(lock, HeartbeatInterval(LeaseOf(seen.get())),
                      [&] { return stopping_ || session_ != seen; });
  }
}

void Worker::SendHeartbeat() {
  std::shared_ptr<SessionClient> session;
  std::shared_ptr<AssignmentRun> run;
  {
    std::lock_guard lock(mutex_);
    session = session_;
    run = run_;
  }
  if (session == nullptr) return;
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_peak_rss_bytes(base::PeakRssBytes());
  if (run != nullptr) {
    message.set_generation(run->generation());
    const std::vector<v1::StageStatus> statuses = run->Statuses();
    metrics_->Update(statuses);
    for (const v1::StageStatus& status : statuses) {
      *heartbeat->add_stages() = status;
    }
  }
  session->Send(std::move(message));
}

}  // namespace gimbal::worker

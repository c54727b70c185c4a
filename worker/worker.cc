#include "worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/status_macros.h"
#include "common/net/address.h"
#include "common/obs/build_info.h"
#include "worker/agent/heartbeat.h"
#include "worker/checkpoint/coordinator_store.h"

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

// How often reports leave, a bound on the age of what the coordinator shows.
constexpr milliseconds kReportInterval{50};
// Before a new registration or stop request after one that was refused.
constexpr milliseconds kRetryPause{1000};

// 0 without a session.
milliseconds LeaseOf(const SessionClient* session) {
  if (session == nullptr) return milliseconds(0);
  const auto& lease = session->registration().lease();
  return milliseconds(lease.seconds() * 1000 + lease.nanos() / 1000000);
}

// Asks the coordinator to stop the run until it agrees.
class StopRequest {
 public:
  explicit StopRequest(std::string reason) : reason_(std::move(reason)) {}

  void Try(SessionClient& session) {
    const base::SteadyTime now = base::Clock::Real().Now();
    if (done_ || now < next_) return;
    const absl::Status status = session.RequestStop(reason_);
    done_ = status.ok();
    next_ = now + kRetryPause;
    if (done_ || status == last_) return;
    last_ = status;
    base::LogWarning(absl::StrCat(
        "cannot stop the run yet: ", absl::string_view(status.message()),
        "; asks again; one more signal ends this worker at once"));
  }

 private:
  const std::string reason_;
  bool done_ = false;
  base::SteadyTime next_;
  absl::Status last_;
};

absl::Status CheckAddresses(const Worker::Options& options,
                            const rpc::Credentials& credentials) {
  GIMBAL_RETURN_IF_ERROR(credentials.CheckListen("--listen", options.listen));
  if (!options.snapshot_listen.empty()) {
    GIMBAL_RETURN_IF_ERROR(
        credentials.CheckListen("--snapshot-listen", options.snapshot_listen));
  }
  if (!options.advertise.empty()) return absl::OkStatus();
  for (const auto& [option, address] :
       {std::pair("--listen ", options.listen),
        std::pair("--snapshot-listen ", options.snapshot_listen)}) {
    if (!net::IsWildcard(net::HostOf(address))) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        option, address,
        ": neighbours cannot connect to it; say with --advertise HOST by which "
        "name or address they reach this host"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LinkListener>> ListenForLinks(
    const std::string& address) {
  auto listener = LinkListener::Start(address);
  if (listener.ok()) return listener;
  return absl::FailedPreconditionError(absl::StrCat(
      "--listen: ", absl::string_view(listener.status().message()),
      "; give an address of this machine, and a port that nobody has or 0 to "
      "pick a free one"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(
    const Options& options, const std::atomic<int>& signals) {
  GIMBAL_ASSIGN_OR_RETURN(
      const rpc::Credentials credentials,
      rpc::Credentials::Load(rpc::FromEnvironment(options.security)));
  GIMBAL_RETURN_IF_ERROR(CheckAddresses(options, credentials));
  GIMBAL_ASSIGN_OR_RETURN(auto http,
                          obs::HttpServer::Start(options.metrics_listen));
  obs::ShowBuildInfo(http->registry());
  GIMBAL_ASSIGN_OR_RETURN(auto listener, ListenForLinks(options.listen));
  auto store = std::make_unique<SnapshotStore>();
  const std::string& links = listener->address();
  GIMBAL_ASSIGN_OR_RETURN(
      auto snapshot_server,
      SnapshotServer::Start(
          options.snapshot_listen.empty()
              ? absl::StrCat(links.substr(0, links.rfind(':')), ":0")
              : options.snapshot_listen,
          credentials, *store));
  return std::unique_ptr<Worker>(new Worker(
      options, credentials, signals, std::move(http), std::move(listener),
      std::move(store), std::move(snapshot_server)));
}

Worker::Worker(const Options& options, rpc::Credentials credentials,
               const std::atomic<int>& signals,
               std::unique_ptr<obs::HttpServer> http,
               std::unique_ptr<LinkListener> listener,
               std::unique_ptr<SnapshotStore> store,
               std::unique_ptr<SnapshotServer> snapshot_server)
    : options_(options),
      credentials_(std::move(credentials)),
      signals_(signals),
      http_(std::move(http)),
      listener_(std::move(listener)),
      store_(std::move(store)),
      snapshot_server_(std::move(snapshot_server)) {
  health_.Serve(*http_);
  snapshot_server_->Observe([this](const char* method,
                                   const absl::Status& status,
                                   base::Seconds taken) {
    std::lock_guard lock(mutex_);
    if (metrics_ != nullptr) metrics_->OnCall(method, status, taken);
  });
  heartbeat_ = std::thread([this] { HeartbeatLoop(); });
}

Worker::~Worker() {
  // With heartbeats to the last: what is being written may take long.
  fence_.LoseIfClosed();
  Replace(nullptr);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  heartbeat_.join();
  snapshot_server_->Observe(nullptr);
}

absl::StatusOr<int> Worker::Run() {
  for (;;) {
    const absl::StatusOr<std::shared_ptr<SessionClient>> session = Register();
    if (absl::IsOutOfRange(session.status())) {
      base::LogInfo(std::string(session.status().message()));
      return 0;
    }
    GIMBAL_RETURN_IF_ERROR(session.status());
    absl::StatusOr<int> code = FollowSession(**session);
    const bool refused = absl::IsAborted(code.status());
    if (!refused && !absl::IsUnavailable(code.status())) return code;
    // Without the coordinator the stages go on as far as they may and then
    // wait for another one. One that has given the worker up has given its
    // stages to somebody else.
    base::LogWarning(
        absl::StrCat(refused ? "registers again: " : "lost the coordinator: ",
                     absl::string_view(code.status().message())));
    if (refused) {
      fence_.Lose();
      Replace(nullptr);
      ShowStages({});
      about_ = {.run = about_.run};
      base::SetLogContext(about_);
    }
    if (refused) Pause(kRetryPause);
  }
}

void Worker::Pause(milliseconds duration) {
  const base::SteadyTime end = base::Clock::Real().Now() + duration;
  while (base::Clock::Real().Now() < end) {
    health_.Beat();
    std::this_thread::sleep_for(milliseconds(10));
  }
}

v1::RegisterRequest Worker::Registration() const {
  v1::RegisterRequest request;
  request.set_name(options_.name);
  const std::string& host = options_.advertise;
  request.set_data_address(net::Advertise(listener_->address(), host));
  request.set_metrics_address(net::AdvertiseOpen(http_->address(), host));
  request.set_pid(getpid());
  request.set_numerics(options_.backend.numerics);
  request.set_reduced_precision(options_.backend.reduced_precision);
  const DeviceLinks& links = options_.backend.links;
  request.set_gpu(links.gpu);
  request.set_nccl_version(links.nccl_version);
  request.set_nccl_missing(links.nccl_missing);
  request.set_snapshot_address(
      net::Advertise(snapshot_server_->address(), host));
  if (run_ == nullptr) return request;
  if (auto holding = run_->Holding()) *request.mutable_holding() = *holding;
  for (const auto& [stage, update] : store_->Keys()) {
    v1::KeptSnapshot* kept = request.add_kept();
    kept->set_stage(stage);
    kept->set_update(update);
  }
  return request;
}

absl::StatusOr<std::shared_ptr<SessionClient>> Worker::Register() {
  const v1::RegisterRequest request = Registration();
  store_->Renew();
  const bool first = session_ == nullptr;
  GIMBAL_ASSIGN_OR_RETURN(
      std::shared_ptr<SessionClient> session,
      SessionClient::Connect(options_.coordinator, credentials_, request,
                             options_.patience, [&] {
                               health_.Beat();
                               // Who belongs to a run hands the request on to
                               // its next coordinator.
                               return first && signals_ > 0;
                             }));
  about_.run = session->registration().run_id();
  base::SetLogContext(about_);
  base::LogInfo(absl::StrCat(
      "registered as worker ", session->registration().worker_id(), " of run ",
      session->registration().run_id(), "; links at ", listener_->address(),
      ", metrics at http://", http_->address(), "/metrics"));
  // Nobody will answer the probe any more.
  fence_.LoseIfClosed();
  std::lock_guard lock(mutex_);
  if (first) start_.registration = since_start_.Lap();
  const std::string& run_id = session->registration().run_id();
  if (metrics_ == nullptr || metrics_->run() != run_id) {
    metrics_.reset();  // of another run
    metrics_ = std::make_unique<WorkerMetrics>(http_->registry(), run_id);
  }
  session_ = session;
  changed_.notify_all();
  return session;
}

absl::StatusOr<int> Worker::FollowSession(SessionClient& session) {
  StopRequest stop(absl::StrCat(options_.name, " was asked to terminate"));
  for (;;) {
    health_.Beat();
    GIMBAL_ASSIGN_OR_RETURN(std::optional<v1::CoordinatorMessage> message,
                            session.Receive(kReportInterval));
    if (message && message->has_shutdown()) {
      base::LogInfo(absl::StrCat("the coordinator ends the run: ",
                                 message->shutdown().reason()));
      return message->shutdown().exit_code();
    }
    if (message) Handle(std::move(*message));
    if (run_ != nullptr) run_->FlushReports();
    if (signals_ > 0) stop.Try(session);
  }
}

void Worker::Assign(v1::CoordinatorMessage message) {
  Replace(nullptr);
  const v1::Assignment& assignment = message.assignment();
  store_->Begin(assignment.run_id(), message.generation(), assignment.since(),
                assignment.start_update());
  const auto& stages = assignment.stages();
  about_.stages.assign(stages.begin(), stages.end());
  about_.generation = message.generation();
  base::SetLogContext(about_);
  base::LogInfo(absl::StrCat(
      "generation ", message.generation(), ": ",
      stages.empty()       ? "hot spare"
      : stages.size() == 1 ? absl::StrCat("stage ", stages[0])
                           : absl::StrCat("stages ", stages[0], " to ",
                                          stages[stages.size() - 1]),
      " from update ", assignment.start_update(),
      assignment.sources().empty() ? "" : ", kept in memory"));
  ShowStages(assignment);
  if (stages.empty()) return;
  fence_.Renew();
  Replace(std::make_unique<AssignmentRun>(
      message.generation(), std::move(*message.mutable_assignment()), data_,
      *listener_, *store_, tracer_,
      [this](v1::WorkerMessage out) { Send(std::move(out)); },
      [this](const v1::Assignment& of, std::stop_token stop) {
        return CheckpointsOf(of, std::move(stop));
      },
      credentials_, options_.backend.make_engine, options_.backend.links));
}

void Worker::SetTrace(const v1::TraceSetting& setting) {
  std::string run;
  {
    std::lock_guard lock(mutex_);
    run = session_->registration().run_id();
  }
  tracer_.Set({.every = setting.every(),
               .folder = setting.folder(),
               .max_bytes = setting.max_bytes()},
              {.run = run,
               .worker = options_.name,
               .pid = getpid(),
               .clock = trace::ClockId()});
}

void Worker::Handle(v1::CoordinatorMessage message) {
  if (message.has_assignment()) return Assign(std::move(message));
  if (message.has_probe_answer()) {
    fence_.Answered(message.probe_answer().number());
  } else if (message.has_clock_echo()) {
    const v1::ClockEcho& echo = message.clock_echo();
    trace::ClockSample sample = trace::MeasureClock(
        echo.sent_ns(), echo.received_ns(), echo.answered_ns(),
        trace::ClockNs(base::Clock::Real().Now()));
    sample.clock = echo.clock();
    tracer_.AddClockSample(sample);
  } else if (message.has_trace()) {
    SetTrace(message.trace());
  } else if (message.has_committed() && message.committed().in_memory()) {
    store_->DropBefore(message.committed().update());
  } else if (message.has_given_up()) {
    store_->DropAt(message.given_up().update());
  }
  if (run_ == nullptr) {
    return;
  } else if (message.has_rewire()) {
    about_.generation = message.generation();
    base::SetLogContext(about_);
    base::LogInfo(absl::StrCat("generation ", message.generation(),
                               ": keeps its stages, connects edges ",
                               absl::StrJoin(message.rewire().edges(), ", ")));
    fence_.Renew();
    store_->Confirm(message.generation());
    run_->Rewire(message.generation(), message.rewire());
  } else if (message.has_committed()) {
    run_->Committed(message.committed());
  } else if (message.has_grant() &&
             run_->generation() == message.generation()) {
    run_->Extend(message.grant());
  }
}

std::unique_ptr<CheckpointStore> Worker::CheckpointsOf(
    const v1::Assignment& assignment, std::stop_token stop) {
  const auto may_write = [this] { return fence_.Await(); };
  if (assignment.config().checkpoint().store() !=
      v1::CHECKPOINT_STORE_KIND_COORDINATOR) {
    return std::make_unique<SharedFolder>(assignment.checkpoint_root(),
                                          may_write);
  }
  return std::make_unique<CoordinatorStore>(CoordinatorStore::Options{
      .coordinator = options_.coordinator,
      .credentials = credentials_,
      .run_id = assignment.run_id(),
      .sender =
          [this] {
            std::lock_guard lock(mutex_);
            const v1::RegisterResponse& now = session_->registration();
            return CoordinatorStore::Sender{now.worker_id(), now.incarnation()};
          },
      .may_write = may_write,
      .stop = std::move(stop)});
}

void Worker::ShowStages(const v1::Assignment& assignment) {
  std::lock_guard lock(mutex_);
  metrics_->Host(assignment);
}

// To the session of the moment; lost when that has ended.
void Worker::Send(v1::WorkerMessage message) {
  std::shared_ptr<SessionClient> session;
  {
    std::lock_guard lock(mutex_);
    session = session_;
  }
  session->Send(std::move(message));
}

void Worker::Replace(std::unique_ptr<AssignmentRun> run) {
  {
    std::lock_guard lock(mutex_);
    std::swap(run_, run);
  }
  // The old one ends here, without the lock: heartbeats must go on.
}

std::string Worker::WaitsFor() const {
  if (session_ == nullptr) {
    return absl::StrCat("waits for the coordinator at ", options_.coordinator);
  }
  if (run_ == nullptr) return "hosts no stage";
  return run_->WaitsFor();
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
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_peak_rss_bytes(base::PeakRssBytes());
  std::lock_guard lock(mutex_);
  heartbeat->set_probe(fence_.Beat(LeaseOf(session_.get())));
  health_.SetWaiting(WaitsFor());
  if (session_ == nullptr) return;
  if (tracer_.on()) {
    heartbeat->set_clock_ns(trace::ClockNs(base::Clock::Real().Now()));
  }
  heartbeat->set_trace_failure(tracer_.failure());
  if (run_ != nullptr) {
    message.set_generation(run_->generation());
    const std::vector<v1::StageStatus> statuses = run_->Statuses();
    metrics_->Update(statuses);
    run_->FillStart(start_);
    for (const v1::StageStatus& status : statuses) {
      *heartbeat->add_stages() = status;
    }
  }
  metrics_->Update(start_);
  session_->Send(std::move(message));
}

}  // namespace gimbal::worker

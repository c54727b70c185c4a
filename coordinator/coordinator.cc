#include "coordinator/coordinator.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/status_macros.h"
#include "common/config/paths.h"
#include "common/io/file.h"
#include "common/net/address.h"
#include "common/obs/build_info.h"
#include "common/obs/health.h"
#include "common/obs/http_server.h"
#include "common/rpc/credentials.h"
#include "common/rpc/server.h"
#include "coordinator/data_identity.h"
#include "coordinator/live_effects.h"
#include "coordinator/page/status_page.h"
#include "coordinator/planner/placement.h"
#include "coordinator/run/run_controller.h"
#include "coordinator/scrape_targets.h"
#include "coordinator/service/admin_service.h"
#include "coordinator/service/checkpoint_service.h"
#include "coordinator/service/control_service.h"
#include "coordinator/service/event_loop.h"
#include "coordinator/service/status_board.h"
#include "coordinator/store/run_folder.h"
#include "coordinator/summary.h"
#include "coordinator/train_job.h"

namespace gimbal::coordinator {
namespace {

std::chrono::milliseconds Lease(const v1::ClusterSection& cluster) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      base::SecondsOf(cluster.lease()));
}

using std::chrono::milliseconds;

constexpr base::Seconds kFlushEvery{0.5};
// For a disk that is full.
constexpr base::Seconds kRowsWait{60};
constexpr milliseconds kShutdownGrace{2000};
// How long the end is told to those who watch the run.
constexpr milliseconds kTellTheEnd{2000};
// How long what made a run fail is kept for the next scrape: of every 20 s.
constexpr milliseconds kLastScrape{40000};

}  // namespace

struct Coordinator::Impl {
  explicit Impl(Options given)
      : options(std::move(given)),
        loop(TickPeriod(options.config),
             [this](base::SteadyTime now) { Tick(now); }) {}

  ~Impl() { Shutdown(milliseconds(0)); }

  absl::Status BindPorts();
  absl::Status TakeUpRun();
  absl::Status Announce();
  std::string Announced() const;
  std::string AnnouncedMetrics() const;
  void Tick(base::SteadyTime now);
  void FlushRows(base::SteadyTime now);
  void PublishStatus();
  absl::StatusOr<v1::CommandResponse> Command(
      const v1::CommandRequest& request);
  void WriteSummary();
  void StartLoop();
  void Shutdown(milliseconds grace);

  Options options;
  const base::Clock& clock = base::Clock::Real();
  Core core;
  StatusBoard board;
  TimesHistory times;
  EventLoop loop;
  obs::Health health;
  std::unique_ptr<obs::HttpServer> http;
  std::shared_ptr<grpc::Service> control;
  std::shared_ptr<grpc::Service> admin;
  std::shared_ptr<grpc::Service> checkpoints;  // null: workers reach the folder
  std::optional<rpc::Server> server;
  std::optional<RunFolder> folder;
  std::optional<Catalogue> catalogue;
  std::optional<CoordinatorMetrics> metrics;
  std::optional<LiveEffects> effects;
  std::optional<RunController> run;
  std::optional<ScrapeTargets> targets;
  std::optional<TrainJobReporter> train_job;
  base::Stopwatch since_start;
  base::SteadyTime flushed;
  std::optional<base::SteadyTime> unwritten_since;
  bool over = false;     // of the loop
  bool trained = false;  // all stages ran once
  bool loop_started = false;
  std::promise<int> exit_code;
  bool announced = false;
  bool over_before = false;  // all updates were done when this process began
  bool shut_down = false;
};

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(
    Options options) {
  if (options.workers == 0) {
    options.workers = options.config.pipeline().stages();
  }
  if (options.workers < 1 ||
      options.workers > options.config.pipeline().stages()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--workers ", options.workers, ": expected 1 to ",
        options.config.pipeline().stages(), ", the number of pipeline.stages"));
  }
  GIMBAL_ASSIGN_OR_RETURN(
      options.run_dir, config::AbsolutePath("the run folder", options.run_dir));
  GIMBAL_RETURN_IF_ERROR(config::ResolvePaths(options.config));
  auto impl = std::make_unique<Impl>(std::move(options));
  GIMBAL_RETURN_IF_ERROR(impl->BindPorts());
  GIMBAL_RETURN_IF_ERROR(impl->TakeUpRun());
  GIMBAL_RETURN_IF_ERROR(impl->Announce());
  impl->StartLoop();
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

absl::Status Coordinator::Impl::BindPorts() {
  const v1::ClusterSection& cluster = options.config.cluster();
  GIMBAL_ASSIGN_OR_RETURN(
      const rpc::Credentials credentials,
      rpc::Credentials::Load(rpc::FromEnvironment(rpc::FilesOf(cluster))));
  GIMBAL_RETURN_IF_ERROR(
      credentials.CheckListen("cluster.listen", cluster.listen()));
  GIMBAL_ASSIGN_OR_RETURN(http,
                          obs::HttpServer::Start(cluster.metrics_listen()));
  health.Serve(*http);
  ServeStartingPage(*http);
  obs::ShowBuildInfo(http->registry());
  core.advertise = options.advertise;
  control = MakeControlService(loop, core);
  admin = MakeAdminService(
      loop, core, board,
      [this](const v1::CommandRequest& request) { return Command(request); });
  std::vector<grpc::Service*> services = {control.get(), admin.get()};
  if (options.config.checkpoint().store() ==
      v1::CHECKPOINT_STORE_KIND_COORDINATOR) {
    checkpoints = MakeCheckpointService(loop, core);
    services.push_back(checkpoints.get());
  }
  GIMBAL_ASSIGN_OR_RETURN(server,
                          rpc::Server::Start({.address = cluster.listen(),
                                              .services = services,
                                              .credentials = credentials,
                                              .patience = Lease(cluster)}));
  return absl::OkStatus();
}

absl::Status Coordinator::Impl::TakeUpRun() {
  v1::RunConfig& config = options.config;
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> plan,
                          PlanStages(config));
  const std::string root = CheckpointRoot(options.run_dir, config);
  // A run that never was has no checkpoints: those there are another's.
  if (!RunFolder::HoldsRun(options.run_dir)) {
    GIMBAL_RETURN_IF_ERROR(CheckUnused(root));
  }
  GIMBAL_ASSIGN_OR_RETURN(const std::string data, DataIdentity(config));
  if (!config.checkpoint().dir().empty()) {
    GIMBAL_RETURN_IF_ERROR(io::CheckWritable(root));
  }
  GIMBAL_ASSIGN_OR_RETURN(
      folder, RunFolder::Take(options.run_dir, config, data, options.resume));
  config = folder->config;
  GIMBAL_RETURN_IF_ERROR(io::CheckWritable(root));
  catalogue.emplace(root, folder->identity.run_id, config.checkpoint().keep(),
                    config.pipeline().origin());
  GIMBAL_RETURN_IF_ERROR(catalogue->Claim());
  metrics.emplace(http->registry(), folder->identity.run_id, config);
  effects.emplace(*folder, *catalogue, core.sessions, *metrics,
                  config.model().layers(), plan, clock);
  GIMBAL_ASSIGN_OR_RETURN(const std::string numerics,
                          folder->store->LastReason(kNumerics));
  GIMBAL_ASSIGN_OR_RETURN(const std::string order,
                          folder->store->LastReason(kStandingOrder));
  GIMBAL_ASSIGN_OR_RETURN(const std::string trace,
                          folder->store->LastReason(kTraceInForce));
  run.emplace(RunSetup{.config = config,
                       .run_id = folder->identity.run_id,
                       .run_dir = options.run_dir,
                       .checkpoint_root = root,
                       .workers = options.workers,
                       .plan = plan,
                       .numerics = numerics,
                       .order = ParseStandingOrder(order),
                       .trace_every = ParseTrace(trace)},
              *effects);
  GIMBAL_RETURN_IF_ERROR(run->Open());
  over_before = run->exit_code() == 0;
  targets.emplace(options.run_dir, AnnouncedMetrics());
  if (auto server = TrainJobServer::FromEnvironment())
    train_job.emplace(*server);
  core.run = &*run;
  core.answered = [this](const char* method, const absl::Status& status,
                         base::Seconds taken) {
    metrics->OnCall(method, status, taken);
  };
  ServeStatusPage(*http, board, effects->curve(), times);
  PublishStatus();
  return absl::OkStatus();
}

// Where clients that read coordinator.json connect to.
std::string Coordinator::Impl::Announced() const {
  const std::string& address = server->address();
  if (!options.advertise.empty() || !net::IsWildcard(net::HostOf(address))) {
    return net::Advertise(address, options.advertise);
  }
  return net::Advertise(address, "localhost");
}

std::string Coordinator::Impl::AnnouncedMetrics() const {
  const std::string host =
      options.advertise.empty() ? "localhost" : options.advertise;
  return net::AdvertiseOpen(http->address(), host);
}

absl::Status Coordinator::Impl::Announce() {
  const nlohmann::ordered_json json = {{"address", Announced()},
                                       {"metrics_address", AnnouncedMetrics()},
                                       {"pid", getpid()}};
  GIMBAL_RETURN_IF_ERROR(io::WriteFileAtomically(
      options.run_dir + "/coordinator.json", json.dump() + "\n"));
  announced = true;
  if (options.advertise.empty() &&
      net::IsWildcard(net::HostOf(http->address()))) {
    base::LogWarning(absl::StrCat(
        "prometheus-targets.json names ", AnnouncedMetrics(),
        ", which only this machine can scrape: cluster.metrics_listen ",
        http->address(),
        " does not say by which name others reach it; --advertise HOST does"));
  }
  health.SetWaiting("");
  metrics->OnStarted("serve", base::Seconds(since_start.Lap()));
  base::LogInfo(absl::StrCat("run ", folder->identity.run_id, " serves at ",
                             server->address(), ", HTTP at ", http->address()));
  return absl::OkStatus();
}

void Coordinator::Impl::Tick(base::SteadyTime now) {
  health.Beat();
  if (over) return;
  run->Tick(now);
  if (now - flushed >= kFlushEvery || run->exit_code().has_value()) {
    const absl::Status in_place = folder->lock.CheckInPlace();
    if (!in_place.ok()) run->Fail(std::string(in_place.message()));
    FlushRows(now);
    flushed = now;
  }
  PublishStatus();
  if (!run->exit_code().has_value()) return;
  over = true;
  WriteSummary();
  exit_code.set_value(*run->exit_code());
}

// A disk that is full may have room again, when a checkpoint is given up or
// somebody cleans up. Nothing counts before its rows are written.
void Coordinator::Impl::FlushRows(base::SteadyTime now) {
  const absl::Status written = folder->metrics.Flush();
  if (written.ok()) {
    unwritten_since.reset();
  } else if (!unwritten_since) {
    unwritten_since = now;
    effects->Record("rows of metrics.jsonl wait", written.ToString());
  } else if (now - *unwritten_since > kRowsWait) {
    run->Fail(written.ToString());
  }
}

void Coordinator::Impl::PublishStatus() {
  v1::GetStatusResponse status = run->Status(clock.Now());
  for (const StoredDecision& decision : effects->decisions()) {
    v1::Decision& shown = *status.add_decisions();
    shown.set_unix_seconds(decision.unix_seconds);
    shown.set_what(decision.what);
    shown.set_reason(decision.reason);
    if (decision.update) shown.set_update(*decision.update);
    shown.set_generation(decision.generation);
  }
  for (const v1::CheckpointView& checkpoint : effects->checkpoints()) {
    *status.add_checkpoints() = checkpoint;
  }
  status.set_unix_seconds(clock.UnixSeconds());
  metrics->OnStatus(status);
  times.Add(status);
  if (!trained && status.state() == v1::RUN_STATE_RUNNING) {
    trained = true;
    metrics->OnStarted("train", base::Seconds(since_start.Lap()));
  }
  if (targets.has_value()) targets->Publish(status);
  if (train_job.has_value()) train_job->Publish(status);
  board.Publish(std::move(status));
}

absl::StatusOr<v1::CommandResponse> Coordinator::Impl::Command(
    const v1::CommandRequest& request) {
  if (core.run == nullptr) {
    return absl::UnavailableError("the coordinator is starting");
  }
  auto response = core.run->Command(request, clock.Now());
  if (!over) PublishStatus();
  return response;
}

void Coordinator::Impl::WriteSummary() {
  // A folder that was deleted does not come back for this one file.
  if (!folder->lock.CheckInPlace().ok()) return;
  // Whoever finished the run knew more of it: times, refreshes, recoveries.
  if (over_before &&
      std::filesystem::exists(options.run_dir + "/summary.json")) {
    return;
  }
  const absl::Status written = io::WriteFileAtomically(
      options.run_dir + "/summary.json",
      SummaryJson(board.Get(), run->recoveries(), base::PeakRssBytes()));
  if (!written.ok()) base::LogError(written.ToString());
}

void Coordinator::Impl::StartLoop() {
  loop_started = true;
  loop.Start();
}

// In this order: nobody new comes in, whoever is in hears the end, the files
// are whole, the folder is free.
void Coordinator::Impl::Shutdown(milliseconds grace) {
  if (std::exchange(shut_down, true)) return;
  const base::SteadyTime begin = clock.Now();
  if (server.has_value()) server->SetServing(false);
  health.SetWaiting("shuts down");
  loop.Post([this] {
    over = true;
    core.sessions.Close(absl::OkStatus());
  });
  // The server waits for every call, and calls wait for the loop.
  if (!loop_started) StartLoop();
  if (server.has_value()) server->Shutdown(grace);
  loop.Stop();
  train_job.reset();
  core.run = nullptr;
  if (folder.has_value()) {
    const absl::Status synced = folder->metrics.Sync();
    if (!synced.ok()) base::LogError(synced.ToString());
    // Not left to the end of the process, which comes without destructors.
    folder->store.reset();
  }
  if (announced) {
    std::error_code ignored;
    std::filesystem::remove(options.run_dir + "/coordinator.json", ignored);
  }
  http.reset();
  base::LogDebug(absl::StrCat(
      "shut down in ", base::Seconds(clock.Now() - begin).count(), " s"));
}

Coordinator::Coordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Coordinator::~Coordinator() = default;

const std::string& Coordinator::address() const {
  return impl_->server->address();
}

const std::string& Coordinator::metrics_address() const {
  return impl_->http->address();
}

void Coordinator::RequestStop(const std::string& reason) {
  impl_->loop.Post([impl = impl_.get(), reason] {
    v1::CommandRequest request;
    request.set_verb(v1::CommandRequest::VERB_STOP);
    request.set_reason(reason);
    const auto response = impl->Command(request);
    if (!response.ok()) base::LogWarning(response.status().ToString());
  });
}

int Coordinator::Wait() {
  const int exit_code = impl_->exit_code.get_future().get();
  impl_->board.WaitForWatchers(kTellTheEnd);
  if (impl_->board.Get().state() == v1::RUN_STATE_FAILED) {
    impl_->http->WaitForScrape(kLastScrape);
  }
  impl_->Shutdown(kShutdownGrace);
  return exit_code;
}

}  // namespace gimbal::coordinator

#include "worker/agent/assignment_run.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "worker/compute/runtime.h"
#include "worker/pipeline/memory_plan.h"
#include "worker/pipeline/specs.h"
#include "worker/transport/inprocess_link.h"

namespace gimbal::worker {
namespace {

// Time to reach a neighbour's listener, which is there before its stages are.
constexpr std::chrono::seconds kConnectTime{30};

Grant GrantOf(const v1::Grant& grant) {
  Grant result{.until = grant.until(), .final_update = grant.final_update()};
  for (const v1::Cut& cut : grant.cuts()) {
    result.cuts[cut.update()] = {cut.evaluate(), cut.snapshot()};
  }
  for (const v1::RefreshRule& rule : grant.refresh()) {
    result.refresh[rule.stage()].push_back({rule.from(), rule.period()});
  }
  return result;
}

}  // namespace

AssignmentRun::AssignmentRun(int64_t generation, v1::Assignment assignment,
                             WorkerData& data, LinkListener& listener,
                             std::function<void(v1::WorkerMessage)> send)
    : generation_(generation),
      assignment_(std::move(assignment)),
      data_(data),
      listener_(listener),
      outbox_(generation, std::move(send)) {
  thread_ = std::thread([this] { Main(); });
}

AssignmentRun::~AssignmentRun() {
  host_.Cancel();
  AbandonRewiring();
  thread_.join();
}

void AssignmentRun::AbandonRewiring() {
  leave_rewiring_ = true;
  listener_.Abandon(base::StreamOf(assignment_.run_id()), generation_);
  if (rewiring_.joinable()) rewiring_.join();
  leave_rewiring_ = false;
}

void AssignmentRun::Rewire(int64_t generation, const v1::Rewire& rewire) {
  AbandonRewiring();
  generation_ = generation;
  outbox_.SetGeneration(generation);
  if (rewire.has_repeat_after()) outbox_.Repeat(rewire.repeat_after());
  rewiring_ = std::thread([this, rewire] { RewireEdges(rewire); });
}

void AssignmentRun::Committed(int64_t update) {
  const Positions cut =
      Positions::AtCut(update, assignment_.config().batch().accumulate());
  outbox_.Forget(update);
  std::lock_guard lock(links_mutex_);
  for (const auto& [edge, link] : tcp_links_) link->Prune(cut);
}

std::optional<v1::Holding> AssignmentRun::Holding() const {
  std::lock_guard lock(links_mutex_);
  if (!ready_) return std::nullopt;
  v1::Holding holding;
  holding.set_run_id(assignment_.run_id());
  holding.set_generation(generation_);
  *holding.mutable_stages() = assignment_.stages();
  holding.set_until(granted_.until());
  holding.set_final_update(granted_.final_update());
  holding.mutable_broken_edges()->Assign(broken_edges_.begin(),
                                         broken_edges_.end());
  return holding;
}

// In ascending order, as in ConnectEdges.
void AssignmentRun::RewireEdges(const v1::Rewire& rewire) {
  std::map<int, TcpLink*> links;
  {
    std::lock_guard lock(links_mutex_);
    for (const int edge : rewire.edges()) {
      if (tcp_links_.contains(edge)) links[edge] = tcp_links_[edge];
    }
  }
  for (const auto& [edge, link] : links) link->Detach();
  {
    std::lock_guard lock(links_mutex_);
    for (const auto& [edge, link] : links) broken_edges_.insert(edge);
  }
  for (const auto& [edge, link] : links) {
    absl::StatusOr<Socket> socket =
        ConnectEdge({.run = base::StreamOf(assignment_.run_id()),
                     .generation = generation_,
                     .edge = edge},
                    host_.Find(edge) != nullptr,
                    rewire.placements(edge + 1).data_address());
    if (absl::IsAborted(socket.status())) return;
    if (!socket.ok()) return ReportBroken(edge, socket.status());
    {
      std::lock_guard lock(links_mutex_);
      broken_edges_.erase(edge);
    }
    link->Attach(generation_, std::move(socket).value());
  }
  v1::WorkerMessage ready;
  ready.mutable_ready();
  outbox_.Post(std::move(ready));
}

void AssignmentRun::Extend(const v1::Grant& grant) {
  {
    std::lock_guard lock(links_mutex_);
    granted_.set_until(grant.until());
    granted_.set_final_update(grant.final_update());
  }
  host_.Extend(GrantOf(grant));
}

void AssignmentRun::Main() {
  absl::Status status;
  try {
    status = Execute();
  } catch (const std::bad_alloc&) {
    int64_t bytes = 0;
    for (const int stage : assignment_.stages()) {
      bytes += PlanStage(assignment_.config(), assignment_.placements(stage))
                   .total();
    }
    status = absl::ResourceExhaustedError(absl::StrCat(
        "out of memory: the stages of this worker need ", bytes >> 20,
        " MiB; use more stages, fewer samples per microbatch, or see "
        "`gimbal plan`"));
  }
  if (!status.ok() && !host_.cancelled()) ReportFailure(status);
}

absl::Status AssignmentRun::Execute() {
  compute::PrepareComputeThread();
  compute::SetThreads(assignment_.config().cluster().threads());
  GIMBAL_RETURN_IF_ERROR(BuildStages());
  GIMBAL_RETURN_IF_ERROR(ConnectEdges());
  host_.Start(assignment_.start_update());
  {
    std::lock_guard lock(links_mutex_);
    ready_ = true;
  }
  v1::WorkerMessage ready;
  ready.mutable_ready();
  outbox_.Post(std::move(ready));

  GIMBAL_RETURN_IF_ERROR(host_.Run());
  snapshots_->Flush();
  v1::WorkerMessage finished;
  finished.mutable_finished()->set_peak_rss_bytes(base::PeakRssBytes());
  for (const v1::StageStatus& status : Statuses()) {
    *finished.mutable_finished()->add_stages() = status;
  }
  outbox_.Post(std::move(finished));
  return absl::OkStatus();
}

absl::Status AssignmentRun::BuildStages() {
  const v1::RunConfig& config = assignment_.config();
  const int last = config.pipeline().stages() - 1;
  const auto& stages = assignment_.stages();
  if (std::find(stages.begin(), stages.end(), 0) != stages.end() ||
      std::find(stages.begin(), stages.end(), last) != stages.end()) {
    GIMBAL_RETURN_IF_ERROR(data_.Open(config));
  }
  snapshots_ = std::make_unique<SnapshotWriter>(
      assignment_.checkpoint_root(), signal_,
      [this](const SnapshotResult& result) { ReportSnapshot(result); });
  for (const int stage : stages) {
    const StageSpec spec = StageSpecOf(config, assignment_.placements(stage));
    auto runner = std::make_unique<StageRunner>(
        StageOptions{
            .spec = StageStateSpecOf(config, assignment_.placements(stage)),
            .eval_batches = config.eval().batches(),
            .train = data_.train.get(),
            .valid = data_.valid.get()},
        Events());
    GIMBAL_RETURN_IF_ERROR(LoadState(runner.get(), spec));
    host_.Add(std::move(runner));
  }
  return absl::OkStatus();
}

absl::Status AssignmentRun::LoadState(StageRunner* runner,
                                      const StageSpec& spec) const {
  StageState& state = runner->state();
  const int64_t start = assignment_.start_update();
  if (start > 0) {
    return LoadStage(absl::StrCat(assignment_.checkpoint_root(), "/",
                                  io::StepFolderName(start)),
                     start, &state);
  }
  state.Initialize(assignment_.config().run().seed(), spec.model.init_std);
  return absl::OkStatus();
}

StageEvents AssignmentRun::Events() {
  return {
      .updated = [this](const UpdateReport& r) { outbox_.AddUpdate(r); },
      .evaluated = [this](int64_t update,
                          double loss) { outbox_.AddEvaluation(update, loss); },
      .snapshot =
          [this](int stage, int64_t update, const StageState& state) {
            return snapshots_->Take(stage, update, state);
          },
  };
}

// Edges are connected in ascending order on every worker, so that no two
// workers can wait for each other.
absl::Status AssignmentRun::ConnectEdges() {
  const v1::RunConfig& config = assignment_.config();
  std::vector<std::pair<Link*, Link*>> ends(  // of each stage: up, down
      static_cast<size_t>(config.pipeline().stages()));
  for (int edge = 0; edge + 1 < config.pipeline().stages(); ++edge) {
    const bool up_here = host_.Find(edge) != nullptr;
    const bool down_here = host_.Find(edge + 1) != nullptr;
    if (!up_here && !down_here) continue;
    const EdgeSpec spec{
        .identity = {.run = base::StreamOf(assignment_.run_id()),
                     .generation = generation_,
                     .edge = edge},
        .rows = int64_t{config.batch().microbatch()} * config.model().context(),
        .cols = config.model().hidden()};
    if (up_here && down_here) {
      auto [up, down] = InProcessLink::MakePair(spec, signal_);
      ends[edge].second = up.get();
      ends[edge + 1].first = down.get();
      host_.Add(std::move(up));
      host_.Add(std::move(down));
      continue;
    }
    GIMBAL_ASSIGN_OR_RETURN(
        Socket socket,
        ConnectEdge(spec.identity, up_here,
                    assignment_.placements(edge + 1).data_address()));
    std::unique_ptr<TcpLink> link = MakeLink(spec, std::move(socket));
    (up_here ? ends[edge].second : ends[edge + 1].first) = link.get();
    host_.Add(std::move(link));
  }
  for (const auto& runner : host_.runners()) {
    runner->Connect(ends[runner->index()].first, ends[runner->index()].second);
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> AssignmentRun::ConnectEdge(const EdgeIdentity& edge,
                                                  bool upstream_here,
                                                  const std::string& address) {
  if (!upstream_here) return listener_.Accept(edge);
  return DialEdge(address, edge, base::Clock::Real().Now() + kConnectTime,
                  [this] { return host_.cancelled() || leave_rewiring_; });
}

std::unique_ptr<TcpLink> AssignmentRun::MakeLink(const EdgeSpec& edge,
                                                 Socket socket) {
  const v1::RunConfig& config = assignment_.config();
  const int number = edge.identity.edge;
  TcpLinkOptions options{
      .received = Positions::AtCut(assignment_.start_update(),
                                   config.batch().accumulate()),
      .log = {.memory_bytes = int64_t{config.cluster().replay_memory_mb()}
                              << 20,
              .disk_bytes = int64_t{config.cluster().replay_disk_mb()} << 20,
              .folder = assignment_.checkpoint_root()},
      .on_broken = [this, number](const absl::Status& status) {
        ReportBroken(number, status);
      }};
  auto link = std::make_unique<TcpLink>(edge, std::move(socket), signal_,
                                        std::move(options));
  std::lock_guard lock(links_mutex_);
  tcp_links_[number] = link.get();
  return link;
}

void AssignmentRun::ReportBroken(int edge, const absl::Status& status) {
  if (host_.cancelled()) return;
  base::LogWarning(
      absl::StrCat("edge ", edge, ": ", absl::string_view(status.message())));
  {
    std::lock_guard lock(links_mutex_);
    broken_edges_.insert(edge);
  }
  v1::WorkerMessage message;
  v1::WorkerFailure* failure = message.mutable_failure();
  failure->set_kind(absl::IsOutOfRange(status) ? v1::WorkerFailure::KIND_REPLAY
                                               : v1::WorkerFailure::KIND_LINK);
  failure->set_stage(host_.Find(edge) != nullptr ? edge : edge + 1);
  failure->set_edge(edge);
  failure->set_reason(std::string(status.message()));
  outbox_.Post(std::move(message));
}

void AssignmentRun::ReportSnapshot(const SnapshotResult& result) {
  v1::WorkerMessage message;
  v1::SnapshotWritten* written = message.mutable_snapshot();
  written->set_update(result.update);
  written->set_stage(result.stage);
  written->set_seconds(result.seconds);
  if (!result.status.ok()) {
    base::LogWarning(absl::StrCat("snapshot of stage ", result.stage,
                                  " at update ", result.update, ": ",
                                  absl::string_view(result.status.message())));
    written->set_error(std::string(result.status.message()));
  }
  for (const SnapshotFile& file : result.files) {
    v1::CheckpointFile* out = written->add_files();
    out->set_path(file.path);
    out->set_bytes(file.written.bytes);
    out->set_sha256(file.written.sha256);
  }
  outbox_.Post(std::move(message));
}

void AssignmentRun::ReportFailure(const absl::Status& status) {
  base::LogError(absl::StrCat(absl::string_view(status.message())));
  // The first hosted stage stands for the worker.
  v1::WorkerMessage message;
  v1::WorkerFailure* failure = message.mutable_failure();
  failure->set_kind(absl::IsUnavailable(status) ||
                            absl::IsDeadlineExceeded(status)
                        ? v1::WorkerFailure::KIND_LINK
                        : v1::WorkerFailure::KIND_FATAL);
  failure->set_stage(assignment_.stages().empty() ? 0 : assignment_.stages(0));
  failure->set_reason(std::string(status.message()));
  outbox_.Post(std::move(message));
}

std::vector<v1::StageStatus> AssignmentRun::Statuses() const {
  std::vector<v1::StageStatus> statuses;
  for (const auto& [stage, from] : host_.Statuses()) {
    v1::StageStatus status;
    status.set_stage(stage);
    status.set_weight_version(from.weight_version);
    status.set_activity(from.activity);
    v1::StageTimes* times = status.mutable_times();
    times->set_forward(from.times.forward);
    times->set_backward(from.times.backward);
    times->set_update(from.times.update);
    times->set_refresh(from.times.refresh);
    times->set_evaluate(from.times.evaluate);
    times->set_checkpoint(from.times.checkpoint);
    times->set_idle(std::max(0.0, from.seconds - from.times.busy()));
    status.set_stash_versions(from.stash_versions);
    status.set_stash_bytes(from.stash_bytes);
    status.set_memory_bytes(from.memory_bytes);
    status.set_refreshes(from.refreshes);
    status.set_microbatches(from.microbatches);
    statuses.push_back(std::move(status));
  }
  return statuses;
}

}  // namespace gimbal::worker

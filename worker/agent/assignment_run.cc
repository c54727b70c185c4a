#include "worker/agent/assignment_run.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "worker/checkpoint/snapshot_client.h"
#include "worker/compute/runtime.h"
#include "worker/pipeline/memory_plan.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

Grant GrantOf(const v1::Grant& grant) {
  Grant result{.until = grant.until(), .final_update = grant.final_update()};
  for (const v1::Cut& cut : grant.cuts()) {
    result.cuts[cut.update()] = {cut.evaluate(), cut.snapshot(), cut.keep()};
  }
  for (const v1::RefreshRule& rule : grant.refresh()) {
    result.refresh[rule.stage()].push_back({rule.from(), rule.period()});
  }
  for (const v1::LeftOut& range : grant.left_out()) {
    result.left_out.emplace_back(range.first(), range.last());
  }
  return result;
}

// GIMBAL_POISON=STAGE:UPDATE[,...], for tests of the guards.
int64_t PoisonedUpdate(int stage) {
  const char* poison = std::getenv("GIMBAL_POISON");
  if (poison == nullptr) return 0;
  for (const absl::string_view part : absl::StrSplit(poison, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    int at = 0;
    int64_t update = 0;
    if (!absl::SimpleAtoi(pair.first, &at) ||
        !absl::SimpleAtoi(pair.second, &update)) {
      base::LogWarning(absl::StrCat("GIMBAL_POISON: '", part,
                                    "' is no STAGE:UPDATE and does nothing"));
    } else if (at == stage) {
      return update;
    }
  }
  return 0;
}

// GIMBAL_STAGE_SECONDS, for tests of schedules.
double MicrobatchSeconds() {
  const char* seconds = std::getenv("GIMBAL_STAGE_SECONDS");
  return seconds == nullptr ? 0 : std::atof(seconds);
}

std::map<int, Backup> BackupsOf(
    const google::protobuf::RepeatedPtrField<v1::SnapshotAddress>& addresses) {
  std::map<int, Backup> backups;
  for (const v1::SnapshotAddress& address : addresses) {
    backups[address.stage()] = {address.worker_id(), address.address()};
  }
  return backups;
}

}  // namespace

AssignmentRun::AssignmentRun(int64_t generation, v1::Assignment assignment,
                             WorkerData& data, LinkListener& listener,
                             SnapshotStore& store, trace::Tracer& tracer,
                             std::function<void(v1::WorkerMessage)> send,
                             const MakeCheckpointStore& make_checkpoints,
                             rpc::Credentials credentials, EngineFactory engine,
                             DeviceLinks device)
    : generation_(generation),
      assignment_(std::move(assignment)),
      data_(data),
      store_(store),
      tracer_(tracer),
      credentials_(std::move(credentials)),
      engine_(std::move(engine)),
      on_disk_(assignment_.sources().empty() ? assignment_.start_update() : -1),
      outbox_(generation, std::move(send)),
      checkpoints_(make_checkpoints(assignment_, stop_.get_token())),
      edges_(generation, assignment_, host_, signal_, listener,
             std::move(device), [this](int edge, const absl::Status& status) {
               ReportBroken(edge, status);
             }) {
  if (assignment_.config().cluster().peer_snapshot_every() > 0) {
    keeper_ = std::make_unique<SnapshotKeeper>(
        assignment_.run_id(), store_,
        [this](const std::string& address, const std::string& run,
               int64_t of_generation, int stage, const StageSnapshot& snapshot,
               std::stop_token stop) {
          return StoreSnapshot(address, credentials_, run, of_generation, stage,
                               snapshot, std::move(stop));
        },
        signal_, [this](const KeepResult& result) { ReportKept(result); });
    keeper_->SetBackups(generation, BackupsOf(assignment_.backups()));
  }
  thread_ = std::thread([this] { Main(); });
}

AssignmentRun::~AssignmentRun() {
  host_.Cancel();
  stop_.request_stop();
  AbandonRewiring();
  thread_.join();
}

void AssignmentRun::AbandonRewiring() {
  edges_.Interrupt(generation_);
  if (rewiring_.joinable()) rewiring_.join();
}

void AssignmentRun::Rewire(int64_t generation, const v1::Rewire& rewire) {
  AbandonRewiring();
  // Before the new generation: what these edges still say is about the old one.
  edges_.Leave(rewire.edges());
  generation_ = generation;
  outbox_.SetGeneration(generation, rewire.has_repeat_after()
                                        ? std::optional(rewire.repeat_after())
                                        : std::nullopt);
  if (keeper_ != nullptr) {
    keeper_->SetBackups(generation, BackupsOf(rewire.backups()));
  }
  rewiring_ = std::thread([this, generation, rewire] {
    const absl::Status connected = edges_.Reconnect(generation, rewire);
    if (absl::IsAborted(connected)) return;
    for (const int edge : edges_.broken()) {
      // What was said of it under an older generation was not heard.
      ReportBroken(edge, connected.ok() ? absl::UnavailableError("is broken")
                                        : connected);
    }
    if (!connected.ok()) return;
    v1::WorkerMessage ready;
    ready.mutable_ready();
    outbox_.Post(std::move(ready));
  });
}

void AssignmentRun::Committed(const v1::CheckpointCommitted& committed) {
  // A new coordinator starts with the rows of the newest checkpoint on disk.
  if (!committed.in_memory()) {
    outbox_.Forget(committed.update());
    on_disk_ = committed.update();
  }
  edges_.Prune(committed.update());
}

std::optional<v1::Holding> AssignmentRun::Holding() const {
  v1::Holding holding;
  {
    std::lock_guard lock(mutex_);
    if (!ready_) return std::nullopt;
    // Stages that started from memory cannot tell again what a new coordinator
    // asks for, from the newest checkpoint on, before there is a newer one.
    if (assignment_.start_update() > on_disk_) return std::nullopt;
    holding.set_until(granted_.until());
    holding.set_final_update(granted_.final_update());
  }
  holding.set_run_id(assignment_.run_id());
  holding.set_generation(generation_);
  *holding.mutable_stages() = assignment_.stages();
  const std::set<int> broken = edges_.broken();
  holding.mutable_broken_edges()->Assign(broken.begin(), broken.end());
  return holding;
}

std::string AssignmentRun::WaitsFor() const {
  {
    std::lock_guard lock(mutex_);
    if (!ready_) return "loads its stages and connects their edges";
  }
  const std::set<int> broken = edges_.broken();
  if (broken.empty()) return "";
  return absl::StrCat("waits for the other end of edge ",
                      absl::StrJoin(broken, ", "));
}

void AssignmentRun::Extend(const v1::Grant& grant) {
  {
    std::lock_guard lock(mutex_);
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
  } catch (const std::runtime_error& error) {
    status =
        absl::InternalError(absl::StrCat("the device failed: ", error.what()));
  }
  if (!status.ok() && !host_.cancelled()) ReportFailure(status);
}

absl::Status AssignmentRun::Execute() {
  compute::PrepareComputeThread();
  compute::SetThreads(assignment_.config().cluster().threads());
  base::Stopwatch watch;
  GIMBAL_RETURN_IF_ERROR(BuildStages());
  const double load = watch.Lap();
  GIMBAL_RETURN_IF_ERROR(edges_.Connect(generation_));
  host_.Start(assignment_.start_update());
  {
    std::lock_guard lock(mutex_);
    start_.load = load;
    start_.connect = watch.Lap();
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
      *checkpoints_, signal_,
      [this](const SnapshotResult& result) { ReportSnapshot(result); });
  for (const int stage : stages) {
    const StageSpec spec = StageSpecOf(config, assignment_.placements(stage));
    auto runner = std::make_unique<StageRunner>(
        StageOptions{
            .spec = StageStateSpecOf(config, assignment_.placements(stage)),
            .engine = engine_,
            .eval_batches = config.eval().batches(),
            .train = data_.train.get(),
            .valid = data_.valid.get(),
            .poisoned_update = PoisonedUpdate(stage),
            .microbatch_seconds = MicrobatchSeconds(),
            .recorder = tracer_.NewRecorder(stage)},
        Events());
    GIMBAL_RETURN_IF_ERROR(LoadState(runner.get(), spec));
    host_.Add(std::move(runner));
  }
  return absl::OkStatus();
}

absl::Status AssignmentRun::LoadState(StageRunner* runner,
                                      const StageSpec& spec) {
  if (!assignment_.sources().empty()) return LoadKept(runner);
  StageState& state = runner->state();
  const int64_t start = assignment_.start_update();
  if (start > 0) {
    return LoadStage(*checkpoints_, start, &state);
  }
  state.Initialize(assignment_.config().run().seed(), spec.model.init_std);
  return absl::OkStatus();
}

absl::Status AssignmentRun::LoadKept(StageRunner* runner) {
  const int stage = runner->index();
  without_snapshot_ = stage;
  GIMBAL_ASSIGN_OR_RETURN(const auto snapshot, FindKept(stage));
  GIMBAL_RETURN_IF_ERROR(LoadStage(*snapshot, &runner->state()));
  // So that the stage can be lost again before its next one is kept.
  GIMBAL_RETURN_IF_ERROR(
      store_.Put(assignment_.run_id(), generation_, stage, snapshot));
  without_snapshot_.reset();
  // So that it can be lost together with whoever gave it, too.
  const int64_t backup = BackupsOf(assignment_.backups())[stage].worker;
  const auto has_it = [&](const v1::SnapshotAddress& source) {
    return source.stage() == stage && source.worker_id() == backup;
  };
  if (keeper_ != nullptr &&
      std::ranges::none_of(assignment_.sources(), has_it)) {
    keeper_->SendAgain(generation_, stage, snapshot->update());
  }
  ReportKept({.stage = stage,
              .update = snapshot->update(),
              .bytes = snapshot->bytes()});
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const StageSnapshot>> AssignmentRun::FindKept(
    int stage) {
  const int64_t update = assignment_.start_update();
  std::string errors;
  for (const v1::SnapshotAddress& source : assignment_.sources()) {
    if (source.stage() != stage) continue;
    if (source.worker_id() == assignment_.placements(stage).worker_id()) {
      if (auto own = store_.Find(assignment_.run_id(), stage, update)) {
        return own;
      }
    }
    auto fetched =
        FetchSnapshot(source.address(), credentials_, assignment_.run_id(),
                      stage, update, stop_.get_token());
    if (fetched.ok()) return fetched;
    absl::StrAppend(&errors, "; worker ", source.worker_id(), ": ",
                    absl::string_view(fetched.status().message()));
  }
  return absl::NotFoundError(absl::StrCat("the snapshot of stage ", stage,
                                          " at update ", update,
                                          " is in nobody's memory", errors));
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
      .keep =
          [this](int stage, int64_t update, const StageState& state) {
            return keeper_->Take(stage, update, generation_, state);
          },
  };
}

void AssignmentRun::ReportBroken(int edge, const absl::Status& status) {
  if (host_.cancelled()) return;
  base::LogWarning(
      absl::StrCat("edge ", edge, ": ", absl::string_view(status.message())));
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

void AssignmentRun::ReportKept(const KeepResult& result) {
  v1::WorkerMessage message;
  v1::SnapshotKept* kept = message.mutable_kept();
  kept->set_stage(result.stage);
  kept->set_update(result.update);
  kept->set_backup(result.backup);
  kept->set_bytes(result.bytes);
  kept->set_seconds(result.seconds);
  if (!result.status.ok()) {
    kept->set_error(absl::StrCat("backup ", result.backup, ": ",
                                 absl::string_view(result.status.message())));
    base::LogWarning(absl::StrCat("stage ", result.stage, " at update ",
                                  result.update,
                                  " is not kept: ", kept->error()));
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
  if (without_snapshot_) {
    failure->set_kind(v1::WorkerFailure::KIND_SNAPSHOT);
    failure->set_stage(*without_snapshot_);
  }
  failure->set_reason(std::string(status.message()));
  outbox_.Post(std::move(message));
}

void AssignmentRun::FillStart(StartSeconds& start) const {
  std::lock_guard lock(mutex_);
  if (!ready_) return;
  start.load = start_.load;
  start.connect = start_.connect;
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
    times->set_rotate(from.times.rotate);
    times->set_send(from.times.send);
    times->set_recv(from.times.recv);
    times->set_evaluate(from.times.evaluate);
    times->set_checkpoint(from.times.checkpoint);
    times->set_idle(std::max(0.0, from.seconds - from.times.busy()));
    status.set_stash_versions(from.stash_versions);
    status.set_stash_bytes(from.stash_bytes);
    status.set_memory_bytes(from.memory_bytes);
    status.set_refreshes(from.refreshes);
    status.set_microbatches(from.microbatches);
    status.set_bytes_sent_downstream(from.bytes_sent_downstream);
    status.set_bytes_sent_upstream(from.bytes_sent_upstream);
    statuses.push_back(std::move(status));
  }
  return statuses;
}

}  // namespace gimbal::worker

#include "coordinator/live_effects.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_format.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/io/checkpoint_layout.h"
#include "common/net/secret.h"

namespace gimbal::coordinator {
namespace {

constexpr size_t kShownDecisions = 20;
constexpr size_t kShownCheckpoints = 20;

// Counters in the store.
constexpr char kRefreshChanges[] = "changes of the refresh plan";
constexpr char kNotFinite[] = "minibatches that were not finite";
constexpr char kCheckpointFailures[] = "checkpoints that were given up";

std::string RestartCounter(int stage, Loss loss) {
  return absl::StrCat("restarts of stage ", stage, ", ", NameOf(loss));
}

}  // namespace

LiveEffects::LiveEffects(RunFolder& folder, const Catalogue& catalogue,
                         SessionHub& sessions, CoordinatorMetrics& metrics,
                         int layers, std::vector<v1::StagePlacement> plan,
                         const base::Clock& clock)
    : folder_(folder),
      catalogue_(catalogue),
      sessions_(sessions),
      metrics_(metrics),
      layers_(layers),
      plan_(std::move(plan)),
      clock_(clock),
      secret_(net::RandomBytes(net::kSecretBytes)) {
  const auto stored = folder_.store->Decisions(kShownDecisions);
  if (stored.ok()) decisions_.assign(stored->begin(), stored->end());
  base::SetLogContext({.run = folder_.identity.run_id});
  RestoreMetrics();
  const auto committed = folder_.store->Checkpoints();
  if (!committed.ok()) return;
  for (const int64_t update : *committed) NoteCheckpoint(update, std::nullopt);
}

// Counters of what the store knows go on where the process before left them.
void LiveEffects::RestoreMetrics() {
  for (const v1::StagePlacement& stage : plan_) {
    for (const Loss loss : kLosses) {
      const auto count =
          folder_.store->Count(RestartCounter(stage.stage(), loss));
      if (count.ok()) metrics_.RestoreRestarts(stage.stage(), loss, *count);
    }
  }
  RestoreEvents();
  const auto recoveries = folder_.store->Recoveries();
  if (!recoveries.ok()) return;
  for (const Recovery& recovery : *recoveries) ShowRecovery(recovery);
}

// A store that cannot be read ends the run elsewhere.
void LiveEffects::RestoreEvents() {
  RunStore& store = *folder_.store;
  metrics_.RestoreEvents(
      {.decisions = store.DecisionCount().value_or(0),
       .refresh_changes = store.Count(kRefreshChanges).value_or(0),
       .not_finite = store.Count(kNotFinite).value_or(0),
       .checkpoint_failures = store.Count(kCheckpointFailures).value_or(0)});
  const auto left_outs = store.LeftOuts();
  if (!left_outs.ok()) return;
  for (const LeftOut& left_out : *left_outs) metrics_.OnLeftOut(left_out);
}

void LiveEffects::Count(const std::string& event) {
  const auto counted = folder_.store->Next(event);
  if (!counted.ok()) base::LogWarning(counted.status().ToString());
}

void LiveEffects::ShowRecovery(const Recovery& recovery) {
  // Of a stage that there is no more, perhaps.
  if (recovery.recovered_seconds == 0 ||
      recovery.stage >= static_cast<int>(plan_.size())) {
    return;
  }
  metrics_.OnRecovery(recovery.stage,
                      recovery.recovered_seconds - recovery.detected_seconds);
}

void LiveEffects::NoteCheckpoint(int64_t update,
                                 std::optional<double> unix_seconds) {
  v1::CheckpointView view;
  view.set_update(update);
  if (unix_seconds) view.set_unix_seconds(*unix_seconds);
  checkpoints_.push_back(std::move(view));
  if (checkpoints_.size() > kShownCheckpoints) checkpoints_.pop_front();
}

// A worker that was given up knows the keys of older generations only.
void LiveEffects::Send(int64_t worker, const v1::CoordinatorMessage& message) {
  if (!message.has_assignment() && !message.has_rewire()) {
    sessions_.Send(worker, message);
    return;
  }
  const std::string key =
      net::HmacSha256(secret_, std::to_string(message.generation()));
  v1::CoordinatorMessage with_key = message;
  if (with_key.has_assignment()) {
    with_key.mutable_assignment()->set_link_key(key);
  } else {
    with_key.mutable_rewire()->set_link_key(key);
  }
  sessions_.Send(worker, with_key);
}

void LiveEffects::Disconnect(int64_t worker, const absl::Status& reason) {
  sessions_.Disconnect(worker, reason);
}

absl::StatusOr<int64_t> LiveEffects::Next(Counter counter) {
  if (counter == Counter::kIncarnation) {
    return folder_.store->Next("incarnation");
  }
  const absl::StatusOr<int64_t> generation = folder_.store->Next("generation");
  if (generation.ok()) {
    generation_ = *generation;
    base::SetLogContext(
        {.run = folder_.identity.run_id, .generation = *generation});
  }
  return generation;
}

void LiveEffects::Record(const std::string& what, const std::string& reason,
                         std::optional<int64_t> update) {
  // Reasons may quote bytes of a damaged file, which no message could carry.
  metrics_.OnDecision();
  const StoredDecision decision{.unix_seconds = clock_.UnixSeconds(),
                                .what = base::ValidUtf8(what),
                                .reason = base::ValidUtf8(reason),
                                .update = update,
                                .generation = generation_};
  base::LogInfo(absl::StrCat(decision.what, ": ", decision.reason));
  // In this order: see event_file.h.
  const absl::Status stored = folder_.store->AddDecision(decision);
  if (stored.ok()) {
    folder_.events.Append(decision);
  } else {
    base::LogWarning(stored.ToString());
  }
  decisions_.push_back(decision);
  if (decisions_.size() > kShownDecisions) decisions_.pop_front();
}

void LiveEffects::StageRestarted(int stage, Loss loss) {
  metrics_.OnRestart(stage, loss);
  Count(RestartCounter(stage, loss));
}

void LiveEffects::SaveRecovery(int64_t number, const Recovery& recovery) {
  ShowRecovery(recovery);
  const absl::Status saved = folder_.store->SaveRecovery(number, recovery);
  if (!saved.ok()) base::LogWarning(saved.ToString());
}

void LiveEffects::SaveInterruption(const Interruption& interruption) {
  const absl::Status saved = folder_.store->AddInterruption(interruption);
  if (!saved.ok()) base::LogWarning(saved.ToString());
}

absl::Status LiveEffects::SaveRefreshChange(const RefreshChange& change) {
  metrics_.OnRefreshChange();
  Count(kRefreshChanges);
  return folder_.store->AddRefreshChange(change);
}

absl::Status LiveEffects::SaveLeftOut(const LeftOut& left_out,
                                      int64_t plans_from) {
  metrics_.OnLeftOut(left_out);
  return folder_.store->AddLeftOut(left_out, plans_from);
}

void LiveEffects::CountNotFinite() {
  metrics_.OnNotFinite();
  Count(kNotFinite);
}

absl::Status LiveEffects::DropCheckpointsAfter(int64_t last) {
  std::erase_if(checkpoints_, [last](const v1::CheckpointView& view) {
    return view.update() > last;
  });
  GIMBAL_ASSIGN_OR_RETURN(const bool some_left, catalogue_.RemoveAfter(last));
  // Older ones may have been pruned: then the run begins again.
  return folder_.store->ForgetCheckpointsAfter(some_left ? last : 0);
}

absl::StatusOr<RunHistory> LiveEffects::History() {
  RunHistory history;
  for (const v1::StagePlacement& stage : plan_) {
    int64_t restarts = 0;
    for (const Loss loss : kLosses) {
      GIMBAL_ASSIGN_OR_RETURN(
          const int64_t count,
          folder_.store->Count(RestartCounter(stage.stage(), loss)));
      restarts += count;
    }
    history.restarts.push_back(static_cast<int>(restarts));
  }
  GIMBAL_ASSIGN_OR_RETURN(history.recoveries, folder_.store->Recoveries());
  GIMBAL_ASSIGN_OR_RETURN(history.interruptions,
                          folder_.store->Interruptions());
  GIMBAL_ASSIGN_OR_RETURN(history.refresh_changes,
                          folder_.store->RefreshChanges());
  GIMBAL_ASSIGN_OR_RETURN(history.left_out, folder_.store->LeftOuts());
  GIMBAL_ASSIGN_OR_RETURN(history.generation,
                          folder_.store->Count("generation"));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<int64_t> committed,
                          folder_.store->Checkpoints());
  if (!committed.empty()) history.newest_committed = committed.back();
  return history;
}

absl::Status LiveEffects::WriteRow(const MetricsRow& row) {
  metrics_.OnRow(row);
  folder_.metrics.Append(row);
  curve_.Add(row);
  return absl::OkStatus();
}

absl::Status LiveEffects::FlushRows() { return folder_.metrics.Flush(); }

absl::StatusOr<std::vector<MetricsRow>> LiveEffects::Rows() {
  return folder_.metrics.Rows();
}

absl::StatusOr<std::vector<MetricsRow>> LiveEffects::KeepRows(int64_t last) {
  auto rows = folder_.metrics.Keep(last);
  if (rows.ok()) curve_.Restart(*rows);
  return rows;
}

bool LiveEffects::HasCheckpoint(int64_t update) {
  std::error_code error;
  return std::filesystem::exists(
      absl::StrCat(catalogue_.Folder(update), "/", io::kCommitFile), error);
}

absl::Status LiveEffects::CommitCheckpoint(const CheckpointContent& content) {
  GIMBAL_RETURN_IF_ERROR(folder_.metrics.Sync());
  GIMBAL_RETURN_IF_ERROR(
      catalogue_.Commit({.run_id = folder_.identity.run_id,
                         .config_digest = folder_.identity.config_digest,
                         .update = content.update,
                         .layers = layers_,
                         .stages = plan_,
                         .files = content.files}));
  int64_t bytes = 0;
  for (const v1::CheckpointFile& file : content.files) bytes += file.bytes();
  metrics_.OnCheckpoint({.update = content.update,
                         .bytes = bytes,
                         .unix_seconds = clock_.UnixSeconds(),
                         .seconds = content.seconds});
  NoteCheckpoint(content.update, clock_.UnixSeconds());
  // The checkpoint counts, noted or not.
  const absl::Status noted =
      folder_.store->AddCheckpoint(content.update, clock_.UnixSeconds());
  if (!noted.ok()) base::LogWarning(noted.ToString());
  return absl::OkStatus();
}

void LiveEffects::GiveUpCheckpoint(int64_t update, const std::string& reason) {
  base::LogWarning(
      absl::StrCat("checkpoint ", update, " was given up: ", reason));
  metrics_.OnCheckpointFailure();
  Count(kCheckpointFailures);
}

void LiveEffects::RemoveUnfinishedCheckpoints() {
  if (const absl::Status removed = catalogue_.RemoveLeftovers();
      !removed.ok()) {
    base::LogWarning(removed.ToString());
  }
}

// One of an earlier life: its size and age are those of its files.
void LiveEffects::ShowCheckpoint(int64_t update) {
  namespace fs = std::filesystem;
  const fs::path folder = catalogue_.Folder(update);
  std::error_code error;
  const auto committed = fs::last_write_time(folder / io::kCommitFile, error);
  if (error) return;
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) {
      bytes += static_cast<int64_t>(entry.file_size(error));
    }
  }
  const base::Seconds age = fs::file_time_type::clock::now() - committed;
  metrics_.OnCheckpoint({.update = update,
                         .bytes = bytes,
                         .unix_seconds = clock_.UnixSeconds() - age.count()});
}

absl::StatusOr<int64_t> LiveEffects::NewestCheckpoint() {
  const NewestGood newest =
      FindNewestGood(catalogue_.root(), folder_.identity.run_id);
  for (const absl::Status& bad : newest.passed_over) {
    Record("a damaged checkpoint is passed over", std::string(bad.message()));
  }
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<int64_t> committed,
                          folder_.store->Checkpoints());
  if (newest.update == 0 && !committed.empty()) {
    return absl::DataLossError(absl::StrCat(
        catalogue_.root(), ": no good checkpoint, but that of update ",
        committed.back(),
        " was committed; is the folder mounted, was it moved (checkpoint.dir)? "
        "To begin again at update 0, start a new run in another folder"));
  }
  const v1::PipelineSection& pipeline = folder_.config.pipeline();
  if (newest.update < pipeline.origin()) {
    return absl::DataLossError(absl::StrCat(
        catalogue_.root(), ": the checkpoint of update ", pipeline.origin(),
        ", from which the run goes on with ", pipeline.stages(),
        " stages, is damaged or gone, and older ones belong to the stages "
        "before; `gimbal checkpoint reshard ",
        folder_.run_dir, " --stages ", pipeline.stages(),
        " --out NEW_RUN_DIR` goes over to them again, from update ",
        newest.update));
  }
  if (newest.update > 0) ShowCheckpoint(newest.update);
  // For people: the run goes on without it, on a full disk too.
  if (const absl::Status named = catalogue_.SetLatest(newest.update);
      !named.ok()) {
    base::LogWarning(named.ToString());
  }
  return newest.update;
}

}  // namespace gimbal::coordinator

// Cuts that are kept in the workers' memories.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/planner/backups.h"
#include "coordinator/run/cut_plan.h"
#include "coordinator/run/run_controller.h"

namespace gimbal::coordinator {
namespace {

// Of the process itself and of another one, as far as there is one.
constexpr size_t kCopies = 2;

// "host" of "host:port".
std::string MachineOf(const Worker& worker) {
  const std::string& address = worker.facts.data_address();
  return address.substr(0, address.rfind(':'));
}

}  // namespace

void RunController::OnKept(int64_t worker, const v1::SnapshotKept& kept) {
  if (kept.error().empty()) {
    if (!memory_.Add(kept.stage(), kept.update(), worker)) {
      // Its stage came to it after it was given up.
      return TellGivenUp(kept.update());
    }
    if (table_.Find(kept.backup()) != nullptr) {
      memory_.Add(kept.stage(), kept.update(), kept.backup());
    }
    return;
  }
  if (memory_.committed() >= kept.update()) return;
  if (!keeping_fails_) {
    keeping_fails_ = true;
    effects_.Record(
        absl::StrCat("update ", kept.update(), " is not kept in memory"),
        absl::StrCat("stage ", kept.stage(), ": ", kept.error()),
        kept.update());
  }
  memory_.GiveUp(kept.update());
  TellGivenUp(kept.update());
}

void RunController::TellGivenUp(int64_t update) {
  if (memory_.committed() >= update) return;
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  message.mutable_given_up()->set_update(update);
  TellAll(message);
}

// A cut counts when every stage has all its copies and the rows up to it are
// written, as a checkpoint does.
void RunController::CommitMemoryCut() {
  // A stage that is being replayed reads the last one and needs what its
  // neighbours have kept since.
  if (exit_code_.has_value() || void_rows_ || ledger_.replaying()) return;
  const std::optional<int64_t> whole =
      memory_.NewestWhole(ledger_.rows_taken(),
                          static_cast<int>(std::min(kCopies, Hosts().size())));
  if (!whole) return;
  // Later, when there is room again.
  if (!effects_.FlushRows().ok()) return;
  memory_.Commit(*whole);
  keeping_fails_ = false;
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  message.mutable_committed()->set_update(*whole);
  message.mutable_committed()->set_in_memory(true);
  TellAll(message);
  SpreadOut();
}

// Also those that host nothing now: they may have snapshots from before.
void RunController::TellAll(const v1::CoordinatorMessage& message) {
  for (const auto& [id, worker] : table_.workers()) effects_.Send(id, message);
}

std::vector<int> RunController::LostWithoutSnapshot(int64_t update) const {
  std::vector<int> missing = memory_.Missing(update);
  std::erase_if(missing, [this](int stage) { return IsKept(stage); });
  return missing;
}

// `on_disk`: the newest good checkpoint, 0: none.
absl::Status RunController::RestartFromMemory(int64_t update, int64_t on_disk) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<MetricsRow> rows,
                          effects_.KeepRows(update));
  hosting_.clear();
  GiveUpUnwritten(update);
  RestartFrom(update, rows);
  origin_.in_memory = true;
  memory_.Commit(update);
  committed_.reset();
  if (on_disk > 0) committed_ = on_disk;
  return absl::OkStatus();
}

// The coordinator is a new one and not all stages are held: those that are not
// cannot tell again what the rows since the checkpoint were made of. So the run
// starts from the newest cut that those who are left keep, with the rows that
// are there.
absl::Status RunController::TakeUpMemoryCut(const std::vector<int64_t>& alive) {
  MemoryCuts kept(stages_);
  std::set<int> held;
  for (int64_t worker : alive) {
    if (!HoldingCounts(worker)) continue;
    const v1::RegisterRequest& facts = table_.Find(worker)->facts;
    held.insert(facts.holding().stages().begin(),
                facts.holding().stages().end());
    for (const v1::KeptSnapshot& snapshot : facts.kept()) {
      kept.Add(snapshot.stage(), snapshot.update(), worker);
    }
  }
  const std::vector<MetricsRow> found = std::exchange(rows_found_, {});
  if (static_cast<int>(held.size()) == stages_) return absl::OkStatus();
  const std::optional<int64_t> cut =
      kept.NewestWhole(static_cast<int64_t>(found.size()), 1);
  const int64_t on_disk = committed_.value_or(0);
  if (!cut || *cut <= on_disk) return absl::OkStatus();
  for (int64_t update = on_disk + 1; update <= *cut; ++update) {
    GIMBAL_RETURN_IF_ERROR(
        effects_.WriteRow(found[static_cast<size_t>(update - 1)]));
  }
  return RestartFromMemory(*cut, on_disk);
}

// Stages that start from the cut after `until` do not write their parts of
// checkpoints up to it.
void RunController::GiveUpUnwritten(int64_t until) {
  for (int64_t update = committed_.value_or(0) + 1; update <= until; ++update) {
    if (given_up_.contains(update) ||
        !CutAt(setup_.config, update, final_,
               requested_snapshots_.contains(update))
             .snapshot()) {
      continue;
    }
    for (int stage = 0; stage < stages_; ++stage) {
      if (IsKept(stage) || snapshots_.Has(stage, update)) continue;
      GiveUpCheckpoint(update, absl::StrCat("stage ", stage,
                                            " was lost before it had written "
                                            "its part"));
      break;
    }
  }
}

void RunController::FillBackups(
    int64_t worker,
    google::protobuf::RepeatedPtrField<v1::SnapshotAddress>& backups) const {
  if (setup_.config.cluster().peer_snapshot_every() == 0) return;
  std::map<int64_t, std::string> machines;
  for (int64_t host : slots_) machines[host] = MachineOf(*table_.Find(host));
  const std::map<int64_t, int64_t> backup_of = BackupsOf(slots_, machines);
  const auto backup = backup_of.find(worker);
  if (backup == backup_of.end() || backup->second == 0) return;
  for (int stage : StagesOf(worker)) {
    v1::SnapshotAddress& address = *backups.Add();
    address.set_stage(stage);
    address.set_worker_id(backup->second);
    address.set_address(table_.Find(backup->second)->facts.snapshot_address());
  }
}

// The worker itself first, then those that were heard of since the loss.
void RunController::FillSources(
    int64_t worker,
    google::protobuf::RepeatedPtrField<v1::SnapshotAddress>& sources) const {
  for (int stage : StagesOf(worker)) {
    std::vector<int64_t> holders = memory_.Holders(stage, origin_.update);
    std::ranges::stable_partition(holders, [this](int64_t holder) {
      return table_.Find(holder)->last_heard >= alive_since_;
    });
    std::ranges::stable_partition(
        holders, [worker](int64_t holder) { return holder == worker; });
    for (int64_t holder : holders) {
      v1::SnapshotAddress& address = *sources.Add();
      address.set_stage(stage);
      address.set_worker_id(holder);
      address.set_address(table_.Find(holder)->facts.snapshot_address());
    }
  }
}

}  // namespace gimbal::coordinator

// Who hosts what, and the messages that say so.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "coordinator/planner/slots.h"
#include "coordinator/run/run_controller.h"
#include "coordinator/run/standstill.h"
#include "worker/pipeline/link_choice.h"

namespace gimbal::coordinator {
namespace {

constexpr base::Seconds kCheckpointWait{60};

}  // namespace

// With fewer workers than slots some take several, once the others have stayed
// away long enough and if the config allows so few.
bool RunController::EnoughWorkers(const std::vector<int64_t>& workers,
                                  base::SteadyTime now) {
  const size_t alive = workers.size();
  if (alive >= slots_.size()) return true;
  if (!Recovering()) {
    if (EveryStageIsHeld(workers)) return true;
    // The first one to come begins the wait for the others.
    if (alive == 0 || waits_since_ == base::SteadyTime()) waits_since_ = now;
  }
  if (now - waits_since_ <
      base::SecondsOf(setup_.config.cluster().shrink_after())) {
    return false;
  }
  const int least = setup_.config.cluster().min_workers();
  if (alive > 0 && least > 0 && alive >= static_cast<size_t>(least)) {
    return true;
  }
  if (!Recovering()) return false;
  const std::string reason =
      absl::StrCat(WhoIsMissing(), "; cluster.min_workers is ", least,
                   least == 0 ? " (all of them)" : "");
  if (machine_.state() == v1::RUN_STATE_RECOVERING) {
    Transition(v1::RUN_STATE_WAITING_FOR_CAPACITY, reason);
  } else {
    machine_.Explain(reason);
  }
  return false;
}

// A folder of checkpoints may be away for a moment, and the stages that are
// left lose nothing by waiting for it.
bool RunController::FindsCheckpoint(base::SteadyTime now) {
  const std::optional<int64_t> kept = memory_.committed();
  const bool in_memory =
      kept && (memory_.Missing(*kept).empty() ||
               (kept >= committed_ && LostWithoutSnapshot(*kept).empty()));
  // What a guard left out took newer checkpoints with it.
  const bool needed = committed_ && !void_rows_ && !in_memory;
  if (!needed || effects_.HasCheckpoint(*committed_)) {
    missing_since_.reset();
    return true;
  }
  if (!missing_since_) {
    missing_since_ = now;
    const std::string what =
        absl::StrCat("waits for the checkpoint of update ", *committed_);
    const std::string reason = absl::StrCat(
        "it is not there any more: is ", setup_.checkpoint_root,
        " mounted, was it moved? Without it for ", kCheckpointWait.count(),
        " s the run goes back to an older one, or fails");
    machine_.Explain(absl::StrCat(what, ": ", reason));
    effects_.Record(what, reason, *committed_);
  }
  return now - *missing_since_ > kCheckpointWait;
}

bool RunController::HasVacancy() const {
  return std::ranges::find(slots_, 0) != slots_.end();
}

std::string RunController::WhoIsMissing() const {
  std::vector<int> vacant;
  std::string lost;
  for (int stage = 0; stage < stages_; ++stage) {
    if (slots_[slot_of_stage_[stage]] != 0) continue;
    vacant.push_back(stage);
    if (lost.empty()) lost = stage_info_[stage].lost;
  }
  return MissingText(vacant, lost, table_.Alive(alive_since_).size(),
                     slots_.size());
}

// Workers beyond those that share the stages take some over from those that
// have several: right after a checkpoint, so that next to nothing is replayed.
void RunController::SpreadOut() {
  if (machine_.state() != v1::RUN_STATE_RUNNING) return;
  const std::vector<int64_t> spread =
      SpreadSlots(slots_, table_.Alive(base::SteadyTime()));
  if (spread == slots_) return;
  if (!Transition(v1::RUN_STATE_RECOVERING,
                  "a worker has joined: stages spread out again")) {
    return;
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] != spread[slot]) hosting_.erase(slots_[slot]);
  }
  slots_ = spread;
  alive_since_ = base::SteadyTime();
  counted_restart_ = true;  // nothing was lost
  of_loss_ = false;
}

void RunController::AssignWhenReady(base::SteadyTime now) {
  const bool recovering = Recovering();
  if (!recovering && machine_.state() != v1::RUN_STATE_PENDING) return;
  const std::vector<int64_t> alive = table_.Alive(alive_since_);
  if (!EnoughWorkers(alive, now)) {
    if (!recovering) machine_.Explain(WhoIsMissing());
    return;
  }
  if (recovering && !FindsCheckpoint(now)) return;
  if (recovering && !counted_restart_) {
    // A link broke though nobody died.
    CountRestart(recoveries_.back().stage, Loss::kLink,
                 recoveries_.back().reason);
    if (exit_code_.has_value()) return;
  }
  counted_restart_ = false;
  const absl::StatusOr<int64_t> generation =
      effects_.Next(Counter::kGeneration);
  if (!generation.ok()) return Fail(generation.status().ToString());
  generation_ = *generation;
  if (!recovering) {
    const absl::Status taken = TakeUpMemoryCut(alive);
    if (!taken.ok()) return Fail(taken.ToString());
    TakeUpHoldings(alive);
    TakeUpOrder(alive, now);
    if (exit_code_.has_value()) return;
  }
  const std::vector<int64_t> before = slots_;
  slots_ = FillSlots(slots_, alive);
  // Who has got more has to begin anew with all of it. Who was not heard of in
  // time has lost all, and what it says of its stages counts no more.
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == before[slot]) continue;
    hosting_.erase(slots_[slot]);
    hosting_.erase(before[slot]);
  }
  const absl::Status begun = recovering ? ReplayOrGoBack() : BeginOrTakeUp();
  if (!begun.ok()) return Fail(std::string(begun.message()));
  if (committed_ == stop_at_.value_or(final_)) EndAtLastCheckpoint();
  if (exit_code_.has_value()) return;
  SendAssignments();
  const size_t hosts = Hosts().size();
  Transition(
      v1::RUN_STATE_ASSIGNING,
      absl::StrCat(hosts, hosts == 1 ? " worker takes " : " workers take ",
                   stages_, stages_ == 1 ? " stage" : " stages",
                   " from update ", start_));
}

// The first assignment of a coordinator's life.
absl::Status RunController::BeginOrTakeUp() {
  // What others than those that were taken up have is of unknown times.
  since_ = generation_;
  for (const auto& [id, worker] : table_.workers()) {
    if (!hosting_.contains(id)) memory_.Lose(id);
  }
  if (origin_.in_memory && !LostWithoutSnapshot(origin_.update).empty()) {
    GIMBAL_RETURN_IF_ERROR(RestartFromNewest());
  }
  if (hosting_.empty()) {
    reached_before_.reset();
    effects_.RemoveUnfinishedCheckpoints();
  } else {
    Replay(origin_);
  }
  return absl::OkStatus();
}

// Where nothing computes on a GPU there is no choice.
void RunController::NoteLinks() {
  google::protobuf::RepeatedPtrField<v1::StagePlacement> placements;
  FillPlacements(placements);
  if (placements[0].gpu().empty() || Hosts().size() == 1) return;
  const worker::LinkChoice choice =
      worker::ChooseLinks(setup_.config.cluster().transport(), placements);
  const std::string what =
      absl::StrCat("tensors between workers travel over ",
                   choice.nccl ? "NCCL" : "TCP, through the host's memory");
  if (what == links_) return;
  links_ = what;
  effects_.Record(what, choice.reason);
}

// To the silent as well: one that wakes up in time learns that it is a spare.
void RunController::SendAssignments() {
  NoteLinks();
  for (int64_t worker : table_.Alive(base::SteadyTime())) {
    effects_.Send(worker, TraceMessage());
    const std::vector<int> stages = StagesOf(worker);
    const bool kept = !stages.empty() && IsKept(stages.front());
    effects_.Record(
        absl::StrCat("generation ", generation_, ": worker ", worker,
                     stages.empty() ? " is a spare"
                     : kept         ? " keeps"
                                    : " hosts",
                     stages.empty()       ? ""
                     : stages.size() == 1 ? " stage "
                                          : " stages ",
                     absl::StrJoin(stages, ", ")),
        "consecutive stages, evenly shared");
    if (kept) {
      effects_.Send(worker, RewireFor(worker));
      // The coordinator before may have died before it had told everybody.
      const int64_t granted = hosting_[worker].until;
      if (repeat_after_ && granted < until_) {
        effects_.Send(worker, GrantMessage(granted, until_));
      }
      continue;
    }
    effects_.Send(worker, AssignmentFor(worker));
    if (stages.empty()) continue;
    hosting_[worker] = {.since = generation_};
    const int64_t cut = origin_.update;
    if (until_ > cut) effects_.Send(worker, GrantMessage(cut, until_));
  }
  repeat_after_.reset();
}

void RunController::FillPlacements(
    google::protobuf::RepeatedPtrField<v1::StagePlacement>& placements) const {
  for (const v1::StagePlacement& planned : setup_.plan) {
    v1::StagePlacement& placement = *placements.Add();
    placement = planned;
    const int64_t worker = slots_[slot_of_stage_[planned.stage()]];
    placement.set_worker_id(worker);
    const v1::RegisterRequest& facts = table_.Find(worker)->facts;
    placement.set_data_address(facts.data_address());
    placement.set_gpu(facts.gpu());
    placement.set_nccl_version(facts.nccl_version());
  }
}

v1::CoordinatorMessage RunController::AssignmentFor(int64_t worker) const {
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  v1::Assignment& assignment = *message.mutable_assignment();
  *assignment.mutable_config() = setup_.config;
  assignment.set_run_id(setup_.run_id);
  assignment.set_checkpoint_root(setup_.checkpoint_root);
  assignment.set_start_update(origin_.update);
  assignment.set_since(since_);
  FillPlacements(*assignment.mutable_placements());
  if (origin_.in_memory) FillSources(worker, *assignment.mutable_sources());
  FillBackups(worker, *assignment.mutable_backups());
  const std::vector<int> stages = StagesOf(worker);
  assignment.mutable_stages()->Assign(stages.begin(), stages.end());
  return message;
}

v1::CoordinatorMessage RunController::RewireFor(int64_t worker) const {
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  v1::Rewire& rewire = *message.mutable_rewire();
  FillPlacements(*rewire.mutable_placements());
  FillBackups(worker, *rewire.mutable_backups());
  if (repeat_after_) rewire.set_repeat_after(*repeat_after_);
  for (const int edge : broken_edges_) {
    if (edge < 0 || edge + 1 >= stages_) continue;
    const bool mine = slots_[slot_of_stage_[edge]] == worker;
    const bool next = slots_[slot_of_stage_[edge + 1]] == worker;
    if (mine != next) rewire.add_edges(edge);
  }
  return message;
}

// Once each, though one may have several slots.
std::set<int64_t> RunController::Hosts() const {
  return std::set<int64_t>(slots_.begin(), slots_.end());
}

std::vector<int> RunController::StagesOf(int64_t worker) const {
  std::vector<int> stages;
  for (int stage = 0; stage < stages_; ++stage) {
    if (slots_[slot_of_stage_[stage]] == worker) stages.push_back(stage);
  }
  return stages;
}

}  // namespace gimbal::coordinator

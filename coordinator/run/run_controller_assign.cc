// Losses and (re)assignments.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "coordinator/planner/slots.h"
#include "coordinator/run/cut_plan.h"
#include "coordinator/run/run_controller.h"

namespace gimbal::coordinator {

void RunController::Lose(int64_t worker, Loss loss, base::SteadyTime now) {
  const Worker* lost = table_.Find(worker);
  // After the end the table stays as it was, for the summary.
  if (lost == nullptr || exit_code_.has_value()) return;
  const std::string what =
      absl::StrCat("worker ", worker, " (", lost->facts.name(), ") was lost");
  const std::string reason = loss == Loss::kLease
                                 ? "it was silent for longer than cluster.lease"
                                 : "its connection ended";
  const std::vector<int> stages = StagesOf(worker);
  table_.Remove(worker);
  hosting_.erase(worker);
  effects_.Disconnect(worker, absl::AbortedError(absl::StrCat(
                                  what, ": ", reason, "; register again")));
  effects_.Record(what, reason);
  if (stages.empty()) return;
  std::replace(slots_.begin(), slots_.end(), worker, int64_t{0});
  for (int stage : stages) CountRestart(stage, loss, reason);
  counted_restart_ = true;
  const std::string cause = absl::StrCat(what, ": ", reason);
  Recover(stages.front(), cause, now);
  // A neighbour's word on a broken edge may have come before its cause.
  if (Recovering() && only_an_edge_) {
    recoveries_.back().stage = stages.front();
    recoveries_.back().reason = cause;
    SaveRecovery();
  }
  only_an_edge_ = false;
}

void RunController::Recover(int stage, const std::string& reason,
                            base::SteadyTime now) {
  if (exit_code_.has_value()) return;
  if (committed_ == stop_at_.value_or(final_)) return EndAtLastCheckpoint();
  if (machine_.state() == v1::RUN_STATE_DRAINING) {
    return EndEarly(absl::StrCat("lost a worker while it ended: ", reason));
  }
  // Only those heard of from now on are known to have survived.
  alive_since_ = now;
  if (Recovering()) return;
  if (!Transition(v1::RUN_STATE_RECOVERING, reason)) return;
  waits_since_ = now;
  of_loss_ = true;
  recoveries_.push_back(
      {.stage = stage, .reason = reason, .detected_seconds = SecondsAt(now)});
  SaveRecovery();
}

void RunController::SaveRecovery() {
  effects_.SaveRecovery(static_cast<int64_t>(recoveries_.size()) - 1,
                        recoveries_.back());
}

void RunController::CountRestart(int stage, Loss loss,
                                 const std::string& reason) {
  effects_.StageRestarted(stage, loss);
  const int restarts = ++stage_info_[stage].restarts;
  const int budget = setup_.config.cluster().restart_budget();
  if (restarts <= budget) return;
  Fail(absl::StrCat("RESTART_BUDGET_EXCEEDED: stage ", stage,
                    " would be restarted for the ", restarts,
                    ". time, cluster.restart_budget is ", budget,
                    "; the last reason: ", reason));
}

bool RunController::Recovering() const {
  return machine_.state() == v1::RUN_STATE_RECOVERING ||
         machine_.state() == v1::RUN_STATE_WAITING_FOR_CAPACITY;
}

// With fewer workers than slots some take several, once the others have stayed
// away long enough and if the config allows so few.
bool RunController::EnoughWorkers(size_t alive, base::SteadyTime now) {
  if (alive >= slots_.size()) return true;
  if (!Recovering()) return false;  // at the start all are waited for
  const auto& limit = setup_.config.cluster().shrink_after();
  const base::Seconds patience(static_cast<double>(limit.seconds()) +
                               1e-9 * limit.nanos());
  if (now - waits_since_ < patience) return false;
  const int least = setup_.config.cluster().min_workers();
  if (alive > 0 && least > 0 && alive >= static_cast<size_t>(least)) {
    return true;
  }
  if (machine_.state() == v1::RUN_STATE_RECOVERING) {
    Transition(v1::RUN_STATE_WAITING_FOR_CAPACITY,
               absl::StrCat(alive, " of ", slots_.size(),
                            " workers are there, cluster.min_workers is ",
                            least, least == 0 ? " (all of them)" : ""));
  }
  return false;
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
  if (!EnoughWorkers(alive.size(), now)) return;
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
  if (!recovering) TakeUpHoldings(alive);
  const std::vector<int64_t> before = slots_;
  slots_ = FillSlots(slots_, alive);
  // Who has got more has to begin anew with all of it.
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] != before[slot]) hosting_.erase(slots_[slot]);
  }
  if (recovering) {
    const absl::Status cured = ReplayOrGoBack();
    if (!cured.ok()) return Fail(std::string(cured.message()));
  } else if (hosting_.empty()) {
    effects_.RemoveUnfinishedCheckpoints();
  } else {
    Replay();
  }
  if (committed_ == stop_at_.value_or(final_)) EndAtLastCheckpoint();
  if (exit_code_.has_value()) return;
  SendAssignments(alive);
  Transition(v1::RUN_STATE_ASSIGNING,
             absl::StrCat(slots_.size(), " workers take ", stages_,
                          " stages from update ", start_));
}

// The coordinator is a new one of a run that its workers still hold: what they
// have of the last generation stays where it is, and they will tell again what
// they told since the newest checkpoint.
void RunController::TakeUpHoldings(const std::vector<int64_t>& alive) {
  for (int64_t worker : alive) {
    const v1::Holding& held = table_.Find(worker)->facts.holding();
    if (held.run_id() != setup_.run_id ||
        held.generation() != generation_ - 1 || held.stages().empty() ||
        held.stages(0) < 0 || held.stages(0) >= stages_) {
      continue;
    }
    int64_t& slot = slots_[slot_of_stage_[held.stages(0)]];
    if (slot != 0) continue;
    slot = worker;
    const std::vector<int> stages = StagesOf(worker);
    if (!std::equal(stages.begin(), stages.end(), held.stages().begin(),
                    held.stages().end())) {
      slot = 0;
      continue;
    }
    hosting_[worker] = {.since = generation_, .loaded = true};
    broken_edges_.insert(held.broken_edges().begin(),
                         held.broken_edges().end());
    until_ = std::max(until_, held.until());
    if (held.final_update() > 0) final_ = std::min(final_, held.final_update());
  }
  if (hosting_.empty()) return;
  limit_ = std::min(limit_, final_);
  repeat_after_ = committed_.value_or(0);
  for (int64_t update = *repeat_after_ + 1; update <= until_; ++update) {
    if (CutAt(setup_.config, update, final_, false).evaluate()) {
      ledger_.ExpectEvaluation(update);
    }
  }
}

bool RunController::IsKept(int stage) const {
  const auto hosting = hosting_.find(slots_[slot_of_stage_[stage]]);
  return hosting != hosting_.end() && hosting->second.loaded;
}

std::optional<std::string> RunController::WhyNotReplay() const {
  if (must_go_back_) return must_go_back_;
  for (int stage = 0; stage < stages_; ++stage) {
    if (IsKept(stage)) return std::nullopt;
  }
  return "no stage is left that could go on";
}

absl::Status RunController::ReplayOrGoBack() {
  GIMBAL_ASSIGN_OR_RETURN(const int64_t newest, effects_.NewestCheckpoint());
  std::optional<std::string> why_not = WhyNotReplay();
  if (!why_not && newest != committed_.value_or(0)) {
    why_not = absl::StrCat("the checkpoint of update ", *committed_,
                           " is damaged, and messages are kept only from there "
                           "on");
  }
  if (!why_not) {
    Replay();
    return absl::OkStatus();
  }
  effects_.Record(absl::StrCat("every stage goes back to update ", newest),
                  *why_not);
  return RestartFromNewest();
}

// The stages that nobody holds start from the newest checkpoint, and their
// neighbours send again what they have kept since.
void RunController::Replay() {
  const int64_t cut = committed_.value_or(0);
  int64_t replayed = 0;
  std::vector<int> lost;
  for (int stage = 0; stage < stages_; ++stage) {
    if (IsKept(stage)) continue;
    lost.push_back(stage);
    replayed = std::max(replayed, ledger_.version(stage) - cut);
    ledger_.Replay(stage, cut);
    stage_info_[stage].status.reset();
    finished_.erase(slots_[slot_of_stage_[stage]]);
    if (stage > 0) broken_edges_.insert(stage - 1);
    if (stage + 1 < stages_) broken_edges_.insert(stage);
  }
  ready_.clear();
  if (Recovering() && of_loss_) {
    recoveries_.back().steps_replayed = replayed;
    SaveRecovery();
  }
  effects_.Record(
      lost.empty() ? absl::StrCat("every stage goes on, edges [",
                                  absl::StrJoin(broken_edges_, ", "),
                                  "] are connected again")
                   : absl::StrCat("stages ", absl::StrJoin(lost, ", "),
                                  " are replayed from update ", cut),
      "the neighbours have kept what they sent since; every other stage stays "
      "where it is");
}

absl::Status RunController::RestartFromNewest() {
  GIMBAL_ASSIGN_OR_RETURN(const int64_t newest, effects_.NewestCheckpoint());
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<MetricsRow> rows,
                          effects_.KeepRows(newest));
  for (const MetricsRow& row : rows) {
    if (static_cast<int>(row.staleness.size()) == stages_) continue;
    return absl::DataLossError(
        absl::StrCat("metrics.jsonl:", row.step, ": staleness of ",
                     row.staleness.size(), " stages, expected ", stages_));
  }
  RestartFrom(newest, rows);
  return absl::OkStatus();
}

void RunController::RestartFrom(int64_t update,
                                const std::vector<MetricsRow>& rows) {
  if (!started_.has_value() && !rows.empty()) {
    seconds_before_ = rows.back().seconds;
  }
  if (Recovering() && of_loss_) {
    recoveries_.back().steps_replayed =
        std::max<int64_t>(0, ledger_.common_version() - update);
    SaveRecovery();
  }
  ledger_ = VersionLedger(schedule_, update);
  statistics_ = RunStatistics(schedule_);
  for (const MetricsRow& row : rows) statistics_.Add(row);
  snapshots_.Restart();
  whole_.clear();
  given_up_.clear();
  committed_.reset();
  if (update > 0) committed_ = update;
  start_ = until_ = update;
  refresh_.Restart(update);
  window_.Restart();
  hosting_.clear();
  broken_edges_.clear();
  must_go_back_.reset();
  ready_.clear();
  finished_.clear();
  for (StageInfo& info : stage_info_) info.status.reset();
}

void RunController::SendAssignments(const std::vector<int64_t>& alive) {
  for (int64_t worker : alive) {
    const std::vector<int> stages = StagesOf(worker);
    const bool kept = !stages.empty() && IsKept(stages.front());
    effects_.Record(
        absl::StrCat("generation ", generation_, ": worker ", worker,
                     stages.empty() ? " is a spare"
                     : kept         ? " keeps stages "
                                    : " hosts stages ",
                     absl::StrJoin(stages, ", ")),
        "consecutive stages, evenly shared");
    if (kept) {
      effects_.Send(worker, RewireFor(worker));
      continue;
    }
    effects_.Send(worker, AssignmentFor(worker));
    if (stages.empty()) continue;
    hosting_[worker] = {.since = generation_};
    const int64_t cut = committed_.value_or(0);
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
    placement.set_data_address(table_.Find(worker)->facts.data_address());
  }
}

v1::CoordinatorMessage RunController::AssignmentFor(int64_t worker) const {
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  v1::Assignment& assignment = *message.mutable_assignment();
  *assignment.mutable_config() = setup_.config;
  assignment.set_run_id(setup_.run_id);
  assignment.set_checkpoint_root(setup_.checkpoint_root);
  assignment.set_start_update(committed_.value_or(0));
  FillPlacements(*assignment.mutable_placements());
  const std::vector<int> stages = StagesOf(worker);
  assignment.mutable_stages()->Assign(stages.begin(), stages.end());
  return message;
}

v1::CoordinatorMessage RunController::RewireFor(int64_t worker) const {
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  v1::Rewire& rewire = *message.mutable_rewire();
  FillPlacements(*rewire.mutable_placements());
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

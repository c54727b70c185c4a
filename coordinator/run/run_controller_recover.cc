// Losses and their cures.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "coordinator/run/cut_plan.h"
#include "coordinator/run/run_controller.h"

namespace gimbal::coordinator {

void RunController::Lose(int64_t worker, Loss loss, base::SteadyTime now) {
  const Worker* lost = table_.Find(worker);
  // After the end the table stays as it was, for the summary.
  if (lost == nullptr || exit_code_.has_value()) return;
  const std::string name = lost->facts.name();
  const std::string what =
      absl::StrCat("worker ", worker, " (", name, ") was lost");
  const std::string reason = loss == Loss::kLease
                                 ? "it was silent for longer than cluster.lease"
                                 : "its connection ended";
  const std::vector<int> stages = StagesOf(worker);
  table_.Remove(worker);
  hosting_.erase(worker);
  memory_.Lose(worker);
  effects_.Disconnect(worker, absl::AbortedError(absl::StrCat(
                                  what, ": ", reason, "; register again")));
  effects_.Record(what, reason);
  if (stages.empty()) return;
  std::replace(slots_.begin(), slots_.end(), worker, int64_t{0});
  for (int stage : stages) {
    stage_info_[stage].lost = absl::StrCat(name, " was lost: ", reason);
    CountRestart(stage, loss, reason);
  }
  counted_restart_ = true;
  const std::string cause = absl::StrCat(what, ": ", reason);
  Recover(stages.front(), cause, now);
  // A neighbour's word on a broken edge may have come before its cause.
  if (Recovering() && only_an_edge_) {
    recoveries_.back().stage = stages.front();
    recoveries_.back().reason = cause;
    machine_.Explain(cause);
    SaveRecovery();
  }
  only_an_edge_ = false;
}

void RunController::Recover(int stage, const std::string& reason,
                            base::SteadyTime now) {
  if (exit_code_.has_value()) return;
  if (committed_ == stop_at_.value_or(final_)) return EndAtLastCheckpoint();
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

// The coordinator is a new one of a run that its workers still hold: what they
// have of the last generation stays where it is, and they will tell again what
// they told since the newest checkpoint.
void RunController::TakeUpHoldings(const std::vector<int64_t>& alive) {
  for (int64_t worker : alive) {
    const v1::Holding& held = table_.Find(worker)->facts.holding();
    if (!HoldingCounts(worker) || !TakeSlots(worker, held)) continue;
    hosting_[worker] = {
        .since = generation_, .loaded = true, .until = held.until()};
    for (const v1::KeptSnapshot& kept : table_.Find(worker)->facts.kept()) {
      memory_.Add(kept.stage(), kept.update(), worker);
    }
    broken_edges_.insert(held.broken_edges().begin(),
                         held.broken_edges().end());
    until_ = std::max(until_, held.until());
    if (held.final_update() > 0) final_ = std::min(final_, held.final_update());
  }
  if (hosting_.empty()) return;
  limit_ = std::min(limit_, final_);
  if (final_ < setup_.config.run().steps()) {
    order_ = {.verb = v1::CommandRequest::VERB_DRAIN, .update = final_};
  }
  // Nobody gets further ahead of those who are held back.
  if (HasVacancy()) {
    refreshable_ = until_ + worker::Delay(schedule_, 0) + 2;
  }
  repeat_after_ = start_;
  for (int64_t update = *repeat_after_ + 1; update <= until_; ++update) {
    if (CutAt(setup_.config, update, final_, false).evaluate()) {
      ledger_.ExpectEvaluation(update);
    }
  }
}

bool RunController::HoldingCounts(int64_t worker) const {
  const v1::Holding& held = table_.Find(worker)->facts.holding();
  return takes_holdings_ && held.run_id() == setup_.run_id &&
         held.generation() == generation_ - 1;
}

bool RunController::EveryStageIsHeld(
    const std::vector<int64_t>& workers) const {
  std::set<int> held;
  for (int64_t worker : workers) {
    const v1::Holding& holding = table_.Find(worker)->facts.holding();
    if (holding.run_id() != setup_.run_id) continue;
    held.insert(holding.stages().begin(), holding.stages().end());
  }
  return takes_holdings_ && held.size() == static_cast<size_t>(stages_);
}

// The slots of the stages that it holds, all or none.
bool RunController::TakeSlots(int64_t worker, const v1::Holding& held) {
  const std::vector<int64_t> before = slots_;
  for (const int stage : held.stages()) {
    const bool known = stage >= 0 && stage < stages_;
    if (!known || before[slot_of_stage_[stage]] != 0) {
      slots_ = before;
      return false;
    }
    slots_[slot_of_stage_[stage]] = worker;
  }
  const std::vector<int> stages = StagesOf(worker);
  if (!stages.empty() &&
      std::equal(stages.begin(), stages.end(), held.stages().begin(),
                 held.stages().end())) {
    return true;
  }
  slots_ = before;
  return false;
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
  std::string why_not;
  GIMBAL_ASSIGN_OR_RETURN(const std::optional<Origin> origin,
                          ReplayOrigin(why_not));
  if (!origin) return GoBack(why_not);
  Replay(*origin);
  return absl::OkStatus();
}

// The newer one of the checkpoint and the cut in memory: messages reach back to
// it, no further. Memory first, since that is quicker and may outlive the disk.
absl::StatusOr<std::optional<RunController::Origin>>
RunController::ReplayOrigin(std::string& why_not) {
  if (const std::optional<std::string> reason = WhyNotReplay()) {
    why_not = *reason;
    return std::nullopt;
  }
  const int64_t on_disk = committed_.value_or(0);
  const std::optional<int64_t> in_memory = memory_.committed();
  if (in_memory >= on_disk) {
    const std::vector<int> missing = LostWithoutSnapshot(*in_memory);
    if (missing.empty()) return Origin{*in_memory, true};
    if (in_memory > on_disk) {
      why_not =
          absl::StrCat("nobody is left who has the snapshots of stages ",
                       absl::StrJoin(missing, ", "), " of update ", *in_memory,
                       ", and messages are kept only from there on");
      return std::nullopt;
    }
  }
  const absl::StatusOr<int64_t> newest = effects_.NewestCheckpoint();
  if (newest.ok() && *newest == on_disk) return Origin{on_disk};
  if (!newest.ok() && !in_memory) return newest.status();
  why_not = absl::StrCat("the checkpoint of update ", on_disk,
                         " is damaged, and messages are kept only from there "
                         "on");
  return std::nullopt;
}

// To the newest cut of which everything is there.
absl::Status RunController::GoBack(const std::string& why) {
  const std::optional<int64_t> in_memory = memory_.committed();
  const bool whole = in_memory && memory_.Missing(*in_memory).empty();
  absl::StatusOr<int64_t> on_disk = committed_.value_or(0);
  // To be sure of the disk takes reading all of it.
  if (!whole || *in_memory < *on_disk) on_disk = effects_.NewestCheckpoint();
  if (whole && (!on_disk.ok() || *in_memory >= *on_disk)) {
    effects_.Record(absl::StrCat("every stage goes back to update ", *in_memory,
                                 ", kept in memory"),
                    why, *in_memory);
    return RestartFromMemory(*in_memory, on_disk.value_or(0));
  }
  if (!on_disk.ok()) return on_disk.status();
  effects_.Record(absl::StrCat("every stage goes back to update ", *on_disk),
                  why, *on_disk);
  return RestartFromNewest();
}

// The stages that nobody holds start from the newest cut, and their neighbours
// send again what they have kept since.
void RunController::Replay(Origin origin) {
  origin_ = origin;
  const int64_t cut = origin.update;
  if (origin.in_memory) GiveUpUnwritten(cut);
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
      lost.empty() ? absl::StrCat("every stage goes on", EdgesAgain())
                   : absl::StrCat(lost.size() == 1 ? "stage " : "stages ",
                                  absl::StrJoin(lost, ", "),
                                  lost.size() == 1 ? " is" : " are",
                                  " replayed from update ", cut,
                                  origin.in_memory ? ", kept in memory" : ""),
      "the neighbours have kept what they sent since; every other stage stays "
      "where it is",
      lost.empty() ? std::nullopt : std::optional(cut));
}

// Rows beyond the newest checkpoint are written again, but the time they took
// has passed, and whoever watches has seen them.
void RunController::TakeUpRows(const std::vector<MetricsRow>& rows) {
  if (rows.empty()) return;
  seconds_before_ = std::max(seconds_before_, rows.back().seconds);
  if (!takes_holdings_ || !had_a_life_ || rows.back().step <= start_) return;
  RunStatistics reached(schedule_);
  for (const MetricsRow& row : rows) {
    const bool mine = static_cast<int>(row.staleness.size()) == stages_;
    if (row.step > schedule_.origin && !mine) return;
    reached.Add(row);
  }
  reached_before_ = reached;
}

std::string RunController::EdgesAgain() const {
  if (broken_edges_.empty()) return "";
  return absl::StrCat(broken_edges_.size() == 1 ? ", edge " : ", edges ",
                      absl::StrJoin(broken_edges_, ", "),
                      broken_edges_.size() == 1 ? " is" : " are",
                      " connected again");
}

absl::Status RunController::RestartFromNewest() {
  GIMBAL_ASSIGN_OR_RETURN(const int64_t newest, effects_.NewestCheckpoint());
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<MetricsRow> rows,
                          effects_.KeepRows(newest));
  for (const MetricsRow& row : rows) {
    // Those up to there are of other stages.
    if (row.step <= schedule_.origin) continue;
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
    seconds_before_ = std::max(seconds_before_, rows.back().seconds);
  }
  if (Recovering() && of_loss_) {
    recoveries_.back().steps_replayed =
        std::max<int64_t>(0, ledger_.common_version() - update);
    SaveRecovery();
  }
  ledger_ = VersionLedger(schedule_, update);
  reached_before_.reset();
  statistics_ = RunStatistics(schedule_);
  for (const MetricsRow& row : rows) statistics_.Add(row);
  guards_.Restart(rows);
  void_rows_ = false;
  snapshots_.Restart();
  whole_.clear();
  given_up_.clear();
  committed_.reset();
  if (update > 0) committed_ = update;
  start_ = until_ = update;
  memory_.GoBack(update);
  origin_ = {update};
  since_ = generation_;
  refresh_.Restart(update);
  window_.Restart();
  hosting_.clear();
  broken_edges_.clear();
  must_go_back_.reset();
  ready_.clear();
  finished_.clear();
  for (StageInfo& info : stage_info_) info.status.reset();
}

}  // namespace gimbal::coordinator

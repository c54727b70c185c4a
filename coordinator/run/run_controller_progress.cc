// Reports, rows, checkpoints and grants while the stages run.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "coordinator/run/cut_plan.h"
#include "coordinator/run/run_controller.h"
#include "worker/optim/lr_schedule.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {

void RunController::OnReports(const v1::StageReports& reports) {
  absl::Status status;
  for (const v1::StageUpdate& update : reports.updates()) {
    status.Update(ledger_.Record(update));
    if (status.ok() && update.has_basis()) {
      stage_info_[update.stage()].basis = update.basis();
    }
  }
  for (const v1::Evaluation& evaluation : reports.evaluations()) {
    status.Update(ledger_.Record(evaluation));
  }
  if (!status.ok()) Fail(std::string(status.message()));
}

void RunController::OnSnapshot(const v1::SnapshotWritten& snapshot) {
  absl::StatusOr<std::optional<CheckpointContent>> content =
      snapshots_.Add(snapshot);
  if (absl::IsDataLoss(content.status())) {
    GiveUpCheckpoint(snapshot.update(),
                     std::string(content.status().message()));
  } else if (!content.ok()) {
    Fail(std::string(content.status().message()));
  } else if (content->has_value()) {
    whole_.push_back(std::move(**content));
  }
}

void RunController::GiveUpCheckpoint(int64_t update,
                                     const std::string& reason) {
  given_up_[update] = reason;
  effects_.Record(absl::StrCat("checkpoint ", update, " was given up"), reason,
                  update);
  effects_.GiveUpCheckpoint(update, reason);
}

void RunController::Progress(base::SteadyTime now) {
  if (exit_code_.has_value()) return;
  WriteRows(now);
  CommitCheckpoints();
  CommitMemoryCut();
  EndWhenDone();
  if (machine_.state() == v1::RUN_STATE_RUNNING && limit_ < final_ &&
      ledger_.common_version() >= limit_) {
    Transition(v1::RUN_STATE_PAUSED,
               absl::StrCat("every stage has reached update ", limit_));
  }
  if (Training()) Grant(now);
}

// Durable before any stage is granted an update that it is about.
absl::Status RunController::TakeRefreshChange(const RefreshChange& change) {
  GIMBAL_RETURN_IF_ERROR(effects_.SaveRefreshChange(change));
  effects_.Record(
      absl::StrCat("basis refreshes every ",
                   absl::StrJoin(change.periods, ", "),
                   " updates, by stage, from update ", change.from, " on"),
      change.reason, change.from);
  return absl::OkStatus();
}

void RunController::WriteRows(base::SteadyTime now) {
  if (exit_code_.has_value() || void_rows_) return;
  const worker::LrSpec lr = worker::LrSpecOf(setup_.config);
  const int64_t tokens = worker::TokensPerUpdate(setup_.config);
  for (MetricsRow& row : ledger_.TakeRows()) {
    const absl::StatusOr<std::optional<LeftOut>> verdict = guards_.Look(&row);
    if (!row.not_finite.empty() && row.left_out.empty()) {
      effects_.CountNotFinite();
    }
    if (!verdict.ok()) return Fail(std::string(verdict.status().message()));
    if (verdict->has_value()) return LeaveOut(**verdict, now);
    // The plan first: who finds the row, or a cut at it, counts on the plan.
    if (const std::optional<RefreshChange> plan =
            refresh_.Take(row.step, row.offdiagonal_ratios)) {
      const absl::Status taken = TakeRefreshChange(*plan);
      if (!taken.ok()) return Fail(taken.ToString());
    }
    row.lr = worker::LearningRate(lr, row.step);
    row.tokens = row.step * tokens;
    row.seconds = SecondsAt(now);
    const absl::Status written = effects_.WriteRow(row);
    if (!written.ok()) return Fail(written.ToString());
    // Told again to a new coordinator, which takes no time.
    if (!Training()) statistics_.Interrupt();
    statistics_.Add(row);
    progressed_ = now;
  }
}

// A checkpoint counts only when the rows up to it are written: whoever resumes
// there finds them, and knows that the guards had no objection.
void RunController::CommitCheckpoints() {
  if (void_rows_) return;
  // A stage that is being replayed reads the last one and needs what its
  // neighbours have kept since.
  while (!exit_code_.has_value() && !ledger_.replaying() && !whole_.empty() &&
         whole_.front().update <= ledger_.rows_taken()) {
    const CheckpointContent content = std::move(whole_.front());
    whole_.erase(whole_.begin());
    const absl::Status committed = effects_.CommitCheckpoint(content);
    if (!committed.ok()) {
      GiveUpCheckpoint(content.update, committed.ToString());
      continue;
    }
    committed_ = content.update;
    requested_snapshots_.erase(content.update);
    effects_.Record(
        absl::StrCat("checkpoint ", content.update, " is committed"),
        absl::StrCat(content.files.size(), " files of ", stages_, " stages"),
        content.update);
    v1::CoordinatorMessage message;
    message.set_generation(generation_);
    message.mutable_committed()->set_update(content.update);
    for (int64_t worker : Hosts()) effects_.Send(worker, message);
    SpreadOut();
  }
}

void RunController::EndWhenDone() {
  // Nobody has to come back for it.
  if (stop_at_ && committed_ == stop_at_) return EndAtLastCheckpoint();
  if (!Training()) return;
  const int64_t last = stop_at_.value_or(final_);
  // Not before the guards have seen all rows: they may know better why.
  const auto it = given_up_.find(last);
  if (it != given_up_.end() && ledger_.rows_taken() >= last) {
    Fail(absl::StrCat("the last checkpoint, at update ", last,
                      ", could not be written: ", it->second,
                      "; the newest committed one is that of update ",
                      committed_.value_or(0)));
    return;
  }
  if (committed_ != last) return;
  for (int64_t worker : slots_) {
    if (!finished_.contains(worker)) return;
  }
  EndAtLastCheckpoint();
}

void RunController::EndAtLastCheckpoint() {
  const int64_t last = stop_at_.value_or(final_);
  if (last == setup_.config.run().steps()) {
    End(v1::RUN_STATE_COMPLETED, 0,
        absl::StrCat("all ", last, " updates are done"));
  } else {
    End(v1::RUN_STATE_STOPPED, 4,
        absl::StrCat("ended at the committed checkpoint of update ", last));
  }
}

void RunController::Grant(base::SteadyTime now) {
  const int64_t slowest = ledger_.common_version();
  int64_t fastest = slowest;
  for (int stage = 0; stage < stages_; ++stage) {
    fastest = std::max(fastest, ledger_.version(stage));
  }
  const int64_t most = MayGrant();
  const bool used_up = until_ > start_ && fastest >= until_ && until_ < most;
  window_.Observe(slowest, used_up, now);
  const int64_t until = std::min(most, slowest + window_.size());
  // Not one message per update: an eighth of the window at a time.
  const int64_t enough = std::max<int64_t>(1, window_.size() / 8);
  if (until - until_ >= enough || until == most) GrantUntil(until);
}

// Nothing beyond it is granted, whoever asks: what waits for the next refresh
// plan, a checkpoint on demand for instance, goes out with the grant after it.
int64_t RunController::MayGrant() const {
  return std::min(limit_, refresh_.limit());
}

// Or as far as may be.
void RunController::GrantUntil(int64_t until) {
  until = std::min(until, MayGrant());
  if (until <= until_) return;
  const v1::CoordinatorMessage message = GrantMessage(until_, until);
  for (const v1::Cut& cut : message.grant().cuts()) {
    if (cut.evaluate()) ledger_.ExpectEvaluation(cut.update());
  }
  until_ = until;
  for (int64_t worker : Hosts()) effects_.Send(worker, message);
}

// With the cuts in (after, until].
v1::CoordinatorMessage RunController::GrantMessage(int64_t after,
                                                   int64_t until) const {
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  v1::Grant& grant = *message.mutable_grant();
  grant.set_until(until);
  grant.set_final_update(final_);
  for (int64_t update = after + 1; update <= until; ++update) {
    const v1::Cut cut = CutAt(setup_.config, update, final_,
                              requested_snapshots_.contains(update));
    if (cut.evaluate() || cut.snapshot() || cut.keep()) {
      *grant.add_cuts() = cut;
    }
  }
  for (int stage = 0; stage < stages_; ++stage) {
    for (const worker::RefreshRule& from : refresh_.rules(stage)) {
      v1::RefreshRule& rule = *grant.add_refresh();
      rule.set_stage(stage);
      rule.set_from(from.from);
      rule.set_period(from.period);
    }
  }
  for (const LeftOut& left_out : guards_.decisions()) {
    v1::LeftOut& range = *grant.add_left_out();
    range.set_first(left_out.first);
    range.set_last(left_out.last);
  }
  return message;
}

double RunController::SecondsAt(base::SteadyTime now) const {
  if (!started_.has_value()) return seconds_before_;
  const double seconds =
      seconds_before_ + base::Seconds(now - *started_).count();
  // Events carry the time at which they arrived; rows never go back.
  return statistics_.last().has_value()
             ? std::max(seconds, statistics_.last()->seconds)
             : seconds;
}

// By the tick: to its precision, so that no event has to see to it.
void RunController::NoteInterruption(base::SteadyTime now) {
  if (!started_.has_value() || Training() != interrupted_since_.has_value()) {
    return;
  }
  const double seconds = SecondsAt(now);
  if (!interrupted_since_) {
    interrupted_since_ = seconds;
    return;
  }
  effects_.SaveInterruption({.begin = *interrupted_since_, .end = seconds});
  interrupted_seconds_ += seconds - *interrupted_since_;
  interrupted_since_.reset();
}

double RunController::TrainedAt(base::SteadyTime now) const {
  return interrupted_since_.value_or(SecondsAt(now)) - interrupted_seconds_;
}

}  // namespace gimbal::coordinator

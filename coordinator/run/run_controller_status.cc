// The answer to GetStatus.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/duration.h"
#include "coordinator/run/run_controller.h"
#include "coordinator/run/standstill.h"

namespace gimbal::coordinator {
namespace {

constexpr size_t kShownRecoveries = 20;
// While nothing trains, and no update is to be expected.
constexpr double kStandstillSeconds = 3;

std::string LayersOf(const v1::StagePlacement& placement, bool first,
                     bool last) {
  const int begin = placement.first_block();
  const int end = begin + placement.blocks() - 1;
  return absl::StrCat(first ? "embedding, " : "",
                      begin == end ? absl::StrCat("block ", begin)
                                   : absl::StrCat("blocks ", begin, "-", end),
                      last ? ", head" : "");
}

double BusyFraction(const v1::StageTimes& times) {
  const double busy = times.forward() + times.backward() + times.update() +
                      times.rotate() + times.refresh() + times.send() +
                      times.recv() + times.checkpoint() + times.evaluate();
  const double total = busy + times.idle();
  return total > 0 ? busy / total : 0;
}

// "ASYNC_1F1B" -> "async-1f1b", "BASIS_ROTATION" -> "basis_rotation".
std::string YamlName(std::string name, size_t prefix, char separator) {
  name.erase(0, prefix);
  for (char& c : name) {
    c = c == '_' ? separator : absl::ascii_tolower(c);
  }
  return name;
}

}  // namespace

v1::GetStatusResponse RunController::Status(base::SteadyTime now) const {
  v1::GetStatusResponse status;
  status.set_run_id(setup_.run_id);
  status.set_name(setup_.config.run().name());
  status.set_run_dir(setup_.run_dir);
  status.set_state(machine_.state());
  status.set_reason(machine_.reason());
  status.set_steps(setup_.config.run().steps());
  status.set_wall_seconds(SecondsAt(now));
  status.set_training_seconds(TrainedAt(now));
  status.set_generation(generation_);
  status.set_schedule(
      YamlName(v1::ScheduleKind_Name(setup_.config.pipeline().schedule()),
               sizeof("SCHEDULE_KIND_") - 1, '-'));
  status.set_optimizer(
      YamlName(v1::OptimizerName_Name(setup_.config.optimizer().name()),
               sizeof("OPTIMIZER_NAME_") - 1, '_'));
  status.set_trace_every(trace_every_);
  if (committed_.has_value()) status.set_last_checkpoint(*committed_);
  if (exit_code_.has_value()) status.set_exit_code(*exit_code_);
  FillProgress(status, now);
  FillRecoveries(status);
  for (int stage = 0; stage < stages_; ++stage) {
    FillStage(stage, *status.add_stages());
  }
  for (const auto& [id, worker] : table_.workers()) {
    v1::WorkerView& view = *status.add_workers();
    view.set_worker_id(id);
    view.set_name(worker.facts.name());
    view.set_pid(worker.facts.pid());
    view.set_heartbeat_age_seconds(
        base::Seconds(now - worker.last_heard).count());
    view.set_metrics_address(worker.facts.metrics_address());
    view.set_peak_rss_bytes(worker.peak_rss_bytes);
    for (int stage : StagesOf(id)) view.add_stages(stage);
    view.set_state(WorkerState(worker));
    view.set_trace_failure(worker.trace_failure);
  }
  status.set_lease_seconds(
      base::SecondsOf(setup_.config.cluster().lease()).count());
  if (StandsStill(now)) {
    status.set_standstill(Standstill(status,
                                     base::Seconds(now - progressed_).count(),
                                     HasVacancy() ? WhoIsMissing() : ""));
  }
  return status;
}

bool RunController::StandsStill(base::SteadyTime now) const {
  if (machine_.state() == v1::RUN_STATE_PAUSED || machine_.ended()) {
    return false;
  }
  // What has just begun has not been seen by a tick.
  if (machine_.state() != ticked_state_) return false;
  const base::Seconds patience(
      Training() ? statistics_.rate().patience_seconds() : kStandstillSeconds);
  return now - progressed_ > patience;
}

// What every stage has done is shown until the stages that do it again have
// caught up; the run has ended where its checkpoint is.
const RunStatistics& RunController::Reached() const {
  const bool behind =
      reached_before_ && !exit_code_ &&
      (!statistics_.last() ||
       statistics_.last()->step < reached_before_->last()->step);
  return behind ? *reached_before_ : statistics_;
}

int64_t RunController::Reached(int stage) const {
  const int64_t version = ledger_.version(stage);
  const auto& last = Reached().last();
  return last ? std::max(version, last->step) : version;
}

void RunController::FillProgress(v1::GetStatusResponse& status,
                                 base::SteadyTime now) const {
  const RunStatistics& reached = Reached();
  if (const auto& last = reached.last(); last.has_value()) {
    status.set_update(last->step);
    status.set_tokens(last->tokens);
    if (last->left_out.empty()) status.set_loss(last->loss);
    status.set_left_out(reached.left_out());
  }
  if (reached.smoothed_loss().has_value()) {
    status.set_smoothed_loss(*reached.smoothed_loss());
  }
  if (reached.valid_loss().has_value()) {
    status.set_valid_loss(*reached.valid_loss());
    status.set_valid_update(*reached.valid_update());
  }
  if (!Training() || StandsStill(now)) return;
  const TrainingRate& rate = statistics_.rate();
  status.set_tokens_per_second(rate.tokens_per_second());
  if (rate.updates_per_second() > 0) {
    const int64_t last = stop_at_.value_or(final_);
    status.set_eta_seconds(static_cast<double>(last - status.update()) /
                           rate.updates_per_second());
  }
}

void RunController::FillRecoveries(v1::GetStatusResponse& status) const {
  const size_t shown = std::min(recoveries_.size(), kShownRecoveries);
  for (size_t i = recoveries_.size() - shown; i < recoveries_.size(); ++i) {
    const Recovery& recovery = recoveries_[i];
    v1::RecoveryView& view = *status.add_recoveries();
    view.set_stage(recovery.stage);
    view.set_reason(recovery.reason);
    view.set_detected_seconds(recovery.detected_seconds);
    if (recovery.recovered_seconds > 0) {
      view.set_recovered_seconds(recovery.recovered_seconds);
    }
    view.set_steps_replayed(recovery.steps_replayed);
  }
}

void RunController::FillStage(int stage, v1::StageView& view) const {
  const StageInfo& info = stage_info_[stage];
  view.set_stage(stage);
  const int64_t worker = slots_[slot_of_stage_[stage]];
  view.set_worker_id(worker);
  view.set_layers(
      LayersOf(setup_.plan[stage], stage == 0, stage == stages_ - 1));
  const int64_t version = Reached(stage);
  view.set_weight_version(version);
  view.set_delay_expected(worker::Delay(schedule_, stage));
  const RunStatistics& reached = Reached();
  if (const auto& last = reached.last();
      last.has_value() && last->step > schedule_.origin) {
    view.set_staleness(last->staleness[stage]);
  }
  view.set_staleness_mean(reached.staleness_mean(stage));
  view.set_staleness_max(reached.staleness_max(stage));
  view.set_restarts(info.restarts_before + info.restarts);
  if (rotates_) {
    const auto rules = refresh_.rules(stage);
    view.set_refreshes(worker::RefreshesDone(rules, version) -
                       worker::RefreshesDone(rules, schedule_.origin));
    for (const worker::RefreshRule& rule : rules) {
      if (rule.from <= version + 1) view.set_refresh_period(rule.period);
    }
  }
  if (stage_info_[stage].basis) {
    *view.mutable_basis() = *stage_info_[stage].basis;
  }
  if (info.status.has_value()) {
    view.set_busy_fraction(BusyFraction(info.status->times()));
    view.set_activity(info.status->activity());
    *view.mutable_times() = info.status->times();
  }
  // Who has kept its stages only tells again.
  const auto hosting = hosting_.find(worker);
  const bool starts_again =
      hosting != hosting_.end() && hosting->second.until == 0;
  if (const int64_t told = ledger_.told(stage);
      starts_again && told < version) {
    view.set_activity(absl::StrCat(view.activity(),
                                   view.activity().empty() ? "" : ", ",
                                   "replays up to update ", version));
  }
  if (worker == 0) view.set_activity("waits for a worker");
}

std::string RunController::WorkerState(const Worker& worker) const {
  if (!worker.in_session) return "joining";
  if (StagesOf(worker.id).empty()) {
    return HasVacancy() ? "waiting" : "spare";
  }
  if (finished_.contains(worker.id)) return "finished";
  return ready_.contains(worker.id) ? "training" : "loading";
}

}  // namespace gimbal::coordinator

#include "coordinator/run/run_controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "coordinator/planner/placement.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {
namespace {

base::Seconds LeaseOf(const v1::RunConfig& config) {
  return base::SecondsOf(config.cluster().lease());
}

constexpr std::chrono::milliseconds kLongestTick{50};
// What the run asks for beyond the worker's numerics, or nothing.
std::string ReducedPrecision(const v1::RunConfig& config) {
  if (config.precision().compute() == v1::PRECISION_BF16) return ", bf16";
  return config.precision().matmul() == v1::PRECISION_TF32 ? ", tf32" : "";
}

// An order to trace is carried out within some heartbeats.
constexpr base::Seconds kTraceBegins{5};

}  // namespace

RunController::RunController(RunSetup setup, RunEffects& effects)
    : setup_(std::move(setup)),
      schedule_(worker::ScheduleSpecOf(setup_.config)),
      stages_(schedule_.stages),
      effects_(effects),
      table_(LeaseOf(setup_.config),
             {.nccl = setup_.config.cluster().transport() == v1::TRANSPORT_NCCL,
              .reduced_precision = !ReducedPrecision(setup_.config).empty()}),
      numerics_(setup_.numerics),
      stage_info_(stages_),
      slot_of_stage_(StagesOverWorkers(stages_, setup_.workers)),
      slots_(setup_.workers),
      ledger_(schedule_, 0),
      guards_(setup_.config),
      statistics_(schedule_),
      snapshots_(stages_),
      memory_(stages_),
      rotates_(setup_.config.optimizer().name() ==
               v1::OPTIMIZER_NAME_BASIS_ROTATION),
      refresh_(setup_.config, setup_.plan),
      window_(stages_),
      limit_(setup_.config.run().steps()),
      final_(setup_.config.run().steps()),
      order_(setup_.order),
      trace_every_(setup_.trace_every.value_or(setup_.config.trace().every())) {
}

std::chrono::milliseconds TickPeriod(const v1::RunConfig& config) {
  const auto lease =
      std::chrono::duration_cast<std::chrono::milliseconds>(LeaseOf(config));
  return std::clamp(lease / 8, std::chrono::milliseconds(1), kLongestTick);
}

absl::Status RunController::Open() {
  GIMBAL_ASSIGN_OR_RETURN(rows_found_, effects_.Rows());
  GIMBAL_ASSIGN_OR_RETURN(const RunHistory history, effects_.History());
  GIMBAL_RETURN_IF_ERROR(TakeUpGuards(history));
  GIMBAL_RETURN_IF_ERROR(RestartFromNewest());
  recoveries_ = history.recoveries;
  had_a_life_ = history.generation > 0;
  // What workers hold reaches back to the newest checkpoint, no further.
  if (history.newest_committed > committed_.value_or(0)) {
    takes_holdings_ = false;
  }
  TakeUpRows(rows_found_);
  if (setup_.config.cluster().peer_snapshot_every() == 0) rows_found_.clear();
  // Moments of an earlier life may lie beyond the rows that are kept.
  for (const Recovery& recovery : recoveries_) {
    seconds_before_ = std::max({seconds_before_, recovery.detected_seconds,
                                recovery.recovered_seconds});
  }
  for (const Interruption& interruption : history.interruptions) {
    seconds_before_ = std::max(seconds_before_, interruption.end);
    interrupted_seconds_ += interruption.end - interruption.begin;
  }
  for (size_t stage = 0; stage < history.restarts.size(); ++stage) {
    stage_info_[stage].restarts_before = history.restarts[stage];
  }
  if (start_ == final_) EndAtLastCheckpoint();
  refresh_.Restore(history.refresh_changes);
  if (rotates_) {
    effects_.Record(
        absl::StrCat("basis refreshes every ",
                     absl::StrJoin(refresh_.initial().periods, ", "),
                     " updates, by stage"),
        refresh_.initial().reason);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::RegisterResponse> RunController::Register(
    const v1::RegisterRequest& request, base::SteadyTime now) {
  if (exit_code_.has_value()) return HasEnded();
  GIMBAL_ASSIGN_OR_RETURN(const int64_t id,
                          effects_.Next(Counter::kIncarnation));
  GIMBAL_RETURN_IF_ERROR(table_.Register(id, request, now));
  effects_.Record(
      absl::StrCat("worker ", id, " (", request.name(), ") was admitted"),
      absl::StrCat("pid ", request.pid(), ", ", request.numerics()));
  NoteNumerics(absl::StrCat(request.numerics(), ReducedPrecision(setup_.config)));
  v1::RegisterResponse response;
  response.set_run_id(setup_.run_id);
  response.set_worker_id(id);
  response.set_incarnation(id);
  *response.mutable_lease() = setup_.config.cluster().lease();
  return response;
}

// A worker that comes after the end, because it was started again just then,
// ends as the others did.
absl::Status RunController::HasEnded() const {
  const std::string text =
      absl::StrCat("the run has ended: ", machine_.reason());
  switch (machine_.state()) {
    case v1::RUN_STATE_COMPLETED:
      return absl::OutOfRangeError(text);
    case v1::RUN_STATE_STOPPED:
      return absl::UnavailableError(text);
    default:
      return absl::FailedPreconditionError(text);
  }
}

// Only a new process can see a change: within one, the table admits one value.
void RunController::NoteNumerics(const std::string& numerics) {
  if (numerics == numerics_) return;
  if (!numerics_.empty()) {
    effects_.Record(
        absl::StrCat("other numerics from update ", start_ + 1, " on"),
        absl::StrCat("'", numerics_, "' before, '", numerics,
                     "' now: last bits may differ from those of a run that "
                     "stayed on one kind of machine"),
        start_ + 1);
  }
  effects_.Record(kNumerics, numerics);
  numerics_ = numerics;
}

absl::Status RunController::Admits(int64_t worker, int64_t incarnation) const {
  const Worker* found = table_.Find(worker);
  if (found != nullptr && found->id == incarnation) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("worker ", worker, " is not, or no longer, known"));
}

absl::Status RunController::Receive(const v1::WorkerMessage& message,
                                    base::SteadyTime now) {
  const int64_t worker = message.worker_id();
  GIMBAL_RETURN_IF_ERROR(table_.Heard(worker, message.incarnation(), now));
  if (exit_code_.has_value()) return absl::OkStatus();
  if (message.has_heartbeat()) {
    NotePeakRss(worker, message.heartbeat().peak_rss_bytes());
    NoteTrace(worker, message.heartbeat(), now);
    AnswerProbe(worker, message.heartbeat().probe());
  }
  if (Counts(message)) {
    switch (message.body_case()) {
      case v1::WorkerMessage::kHeartbeat:
        NoteStages(message.heartbeat().stages());
        break;
      case v1::WorkerMessage::kReports:
        OnReports(message.reports());
        break;
      case v1::WorkerMessage::kReady:
        OnReady(worker, now);
        break;
      case v1::WorkerMessage::kSnapshot:
        OnSnapshot(message.snapshot());
        break;
      case v1::WorkerMessage::kKept:
        OnKept(worker, message.kept());
        break;
      case v1::WorkerMessage::kFinished:
        NoteStages(message.finished().stages());
        NotePeakRss(worker, message.finished().peak_rss_bytes());
        finished_.insert(worker);
        break;
      case v1::WorkerMessage::kFailure:
        OnFailure(worker, message.failure(), now);
        break;
      case v1::WorkerMessage::BODY_NOT_SET:
        break;
    }
  }
  AssignWhenReady(now);
  Progress(now);
  return absl::OkStatus();
}

// What a worker says of its stages holds as long as they are its own. Ready and
// failures are about the edges of one generation.
bool RunController::Counts(const v1::WorkerMessage& message) const {
  const auto hosting = hosting_.find(message.worker_id());
  if (hosting == hosting_.end()) return false;
  const int64_t since = message.has_ready() || message.has_failure()
                            ? generation_
                            : hosting->second.since;
  return message.generation() >= since && message.generation() <= generation_;
}

void RunController::SessionEnded(int64_t worker, base::SteadyTime now) {
  Lose(worker, Loss::kConnection, now);
}

void RunController::Tick(base::SteadyTime now) {
  if (ticked_.has_value() && now - *ticked_ > LeaseOf(setup_.config) / 2) {
    table_.RenewAll(now);
  }
  ticked_ = now;
  NoteInterruption(now);
  if (machine_.state() != ticked_state_) {
    ticked_state_ = machine_.state();
    // It is what recovering has become: the same standstill.
    if (ticked_state_ != v1::RUN_STATE_WAITING_FOR_CAPACITY) progressed_ = now;
  }
  for (int64_t worker : table_.Expired(now)) {
    Lose(worker, Loss::kLease, now);
  }
  AssignWhenReady(now);
  Progress(now);
  if (stop_deadline_ && now > *stop_deadline_ && !exit_code_.has_value()) {
    EndEarly("no checkpoint was written within cluster.grace");
  }
}

void RunController::OnReady(int64_t worker, base::SteadyTime now) {
  if (machine_.state() == v1::RUN_STATE_ASSIGNING) {
    Transition(v1::RUN_STATE_CONNECTING, "the first worker is ready");
  }
  if (machine_.state() != v1::RUN_STATE_CONNECTING) return;
  ready_.insert(worker);
  hosting_[worker].loaded = true;
  for (int64_t slot : slots_) {
    if (!ready_.contains(slot)) return;
  }
  broken_edges_.clear();
  if (!started_.has_value()) started_ = now;
  if (!recoveries_.empty() && recoveries_.back().recovered_seconds == 0) {
    recoveries_.back().recovered_seconds = SecondsAt(now);
    SaveRecovery();
  }
  window_.Observe(ledger_.common_version(), /*used_up=*/false, now);
  Transition(v1::RUN_STATE_RUNNING,
             absl::StrCat("all workers are ready at update ",
                          ledger_.common_version()));
  if (order_.ends_the_run()) {
    Transition(v1::RUN_STATE_DRAINING,
               absl::StrCat("in force: ", ToText(order_)));
  }
}

void RunController::OnFailure(int64_t worker, const v1::WorkerFailure& failure,
                              base::SteadyTime now) {
  const std::string reason = absl::StrCat(
      "worker ", worker, ", stage ", failure.stage(), ": ", failure.reason());
  const bool no_snapshot = failure.kind() == v1::WorkerFailure::KIND_SNAPSHOT;
  const bool edge_failed = failure.kind() == v1::WorkerFailure::KIND_LINK ||
                           failure.kind() == v1::WorkerFailure::KIND_REPLAY;
  if ((!edge_failed && !no_snapshot) || failure.stage() < 0 ||
      failure.stage() >= stages_) {
    Fail(reason);
    return;
  }
  if (edge_failed) broken_edges_.insert(failure.edge());
  // Whoever was thought to have it does not count any more.
  if (no_snapshot && origin_.in_memory) memory_.GiveUp(origin_.update);
  if (failure.kind() == v1::WorkerFailure::KIND_REPLAY) {
    must_go_back_ = failure.reason();
  }
  if (!Recovering()) only_an_edge_ = true;
  Recover(failure.stage(), reason, now);
}

void RunController::NoteStages(
    const google::protobuf::RepeatedPtrField<v1::StageStatus>& stages) {
  for (const v1::StageStatus& status : stages) {
    if (status.stage() >= 0 && status.stage() < stages_) {
      stage_info_[status.stage()].status = status;
    }
  }
}

void RunController::NotePeakRss(int64_t worker, int64_t bytes) {
  int64_t& peak = table_.Find(worker)->peak_rss_bytes;
  peak = std::max(peak, bytes);
}

// One whose folder is full or read-only gives up by itself. Who loads its
// stages may not have read the order yet.
void RunController::NoteTrace(int64_t id, const v1::Heartbeat& heartbeat,
                              base::SteadyTime now) {
  Worker& worker = *table_.Find(id);
  worker.trace_failure = heartbeat.trace_failure();
  if (heartbeat.clock_ns() != 0 || trace_every_ == 0 || !ready_.contains(id)) {
    worker.untraced_since.reset();
    worker.untraced = false;
    return;
  }
  if (!worker.untraced_since) worker.untraced_since = now;
  if (worker.untraced || now - *worker.untraced_since < kTraceBegins) return;
  worker.untraced = true;
  effects_.Record(
      absl::StrCat("worker ", id, " (", worker.facts.name(),
                   ") records no trace"),
      worker.trace_failure.empty()
          ? absl::StrCat("it has not begun for ", kTraceBegins.count(), " s")
          : absl::StrCat(worker.trace_failure,
                         "; `gimbal trace stop` and `gimbal trace start` begin "
                         "another one"));
}

void RunController::AnswerProbe(int64_t worker, int64_t number) {
  if (number == 0) return;
  v1::CoordinatorMessage answer;
  answer.set_generation(generation_);
  answer.mutable_probe_answer()->set_number(number);
  effects_.Send(worker, answer);
}

bool RunController::Training() const {
  return machine_.state() == v1::RUN_STATE_RUNNING ||
         machine_.state() == v1::RUN_STATE_DRAINING;
}

bool RunController::Transition(v1::RunState to, const std::string& reason) {
  const bool trained = Training();
  const absl::Status moved = machine_.Transition(to, reason);
  if (!moved.ok()) {
    base::LogError(moved.ToString());
    return false;
  }
  if (!trained && Training()) statistics_.Interrupt();
  effects_.Record(absl::StrCat("run is ", ShortName(to)), reason);
  return true;
}

void RunController::End(v1::RunState state, int exit_code,
                        const std::string& reason) {
  if (exit_code_.has_value() || !Transition(state, reason)) return;
  exit_code_ = exit_code;
  PutInForce({});
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  message.mutable_shutdown()->set_exit_code(exit_code);
  message.mutable_shutdown()->set_reason(reason);
  for (const auto& [id, worker] : table_.workers()) {
    effects_.Send(id, message);
  }
}

// Without a checkpoint there is nothing that a stopped run could go on from.
void RunController::EndEarly(const std::string& reason) {
  if (committed_.has_value()) {
    // Whoever reads exit code 4 relies on it.
    const absl::StatusOr<int64_t> newest = effects_.NewestCheckpoint();
    if (!newest.ok()) {
      return Fail(absl::StrCat(reason, "; ",
                               absl::string_view(newest.status().message())));
    }
    End(v1::RUN_STATE_STOPPED, 4,
        absl::StrCat("ended at the committed checkpoint of update ", *newest,
                     ": ", reason));
  } else {
    Fail(absl::StrCat("ended before the first checkpoint was committed: ",
                      reason));
  }
}

// Reasons may quote bytes of a damaged file, which no message could carry.
void RunController::Fail(const std::string& reason) {
  End(v1::RUN_STATE_FAILED, 3, base::ValidUtf8(reason));
}

}  // namespace gimbal::coordinator

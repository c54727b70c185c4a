#include "worker/pipeline/stage_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace gimbal::worker {
namespace {

base::SteadyTime Now() { return base::Clock::Real().Now(); }

}  // namespace

StageRunner::StageRunner(const StageOptions& options, StageEvents events)
    : options_(options),
      events_(std::move(events)),
      state_(options.spec, options.engine),
      engine_(state_.engine()),
      in_flight_(static_cast<size_t>(
          ActivationSlots(options.spec.schedule, options.spec.index))),
      grads_(engine_.Allocate(state_.table().size())),
      done_(Now()),
      made_(Now()) {
  const StageSpec& spec = options.spec.stage;
  const int slots = static_cast<int>(in_flight_.size());
  engine_.MakeSlots(slots);
  for (int i = 0; i < slots && !schedule().stash; ++i) {
    state_.in_flight.push_back({.values = engine_.values(i)});
  }
  const auto tokens = static_cast<size_t>(spec.microbatch * spec.model.context);
  if (spec.first) tokens_.resize(tokens);
  if (spec.last) targets_.resize(tokens);
  const StageState::Bytes bytes = StageState::Count(options.spec);
  memory_bytes_ = bytes.weights + bytes.optimizer + state_.table().size() * 4 +
                  engine_.activation_bytes();
  SetActivity("waits for the start");
}

void StageRunner::Connect(Link* up, Link* down) {
  GIMBAL_CHECK((up == nullptr) == first());
  GIMBAL_CHECK((down == nullptr) == last());
  up_ = up;
  down_ = down;
}

void StageRunner::Start(int64_t start) {
  GIMBAL_CHECK(state_.stash().newest() == start);
  start_ = start;
  done_ = Now();
  for (size_t i = 0; i < state_.in_flight.size(); ++i) {
    const int64_t j = state_.in_flight[i].microbatch;
    if (j < 0) continue;
    in_flight_[i] = {.microbatch = j,
                     .version = ForwardVersion(schedule(), index(), j),
                     .restored = true};
    if (!first()) continue;
    options_.train->Fill(j, tokens_.data(), nullptr);
    engine_.SetTokens(tokens_, static_cast<int>(i));
  }
}

bool StageRunner::NextBlock(const Grants& grants) {
  const int64_t update = state_.stash().newest() + 1;
  const std::optional<Grants::Block> block = grants.Find(index(), update);
  if (!block) return false;
  program_ =
      BlockActions(schedule(), index(), update, start_, block->end, block->cut);
  position_ = 0;
  left_out_ = block->left_out;
  refreshes_ =
      block->refresh && !left_out_ && engine_.basis_health().has_value();
  return true;
}

absl::StatusOr<StageRunner::Progress> StageRunner::Step(const Grants& grants) {
  if (position_ == program_.size() && !NextBlock(grants)) {
    const std::optional<int64_t> last = grants.final_update();
    if (last && state_.stash().newest() >= *last) {
      SetActivity("finished");
      return Progress::kFinished;
    }
    GIMBAL_ASSIGN_OR_RETURN(
        const bool ran,
        Blocked(nullptr, absl::StrCat("waits for leave to run update ",
                                      state_.stash().newest() + 1)));
    return ran ? Progress::kRan : Progress::kBlocked;
  }
  GIMBAL_ASSIGN_OR_RETURN(const bool ran, Run(program_[position_]));
  if (!ran) return Progress::kBlocked;
  // The rest of an evaluation is left for the next steps.
  if (eval_part_ == 0) ++position_;
  return Progress::kRan;
}

absl::StatusOr<bool> StageRunner::Run(const Action& action) {
  trace::Recorder* const recorder = options_.recorder.get();
  recording_ = recorder != nullptr && recorder->Wants(UpdateOf(action));
  apart_ = 0;
  const base::SteadyTime begin = Now();
  const absl::StatusOr<bool> ran = RunAny(action);
  const base::SteadyTime end = Now();
  const Phase phase = PhaseOf(action.kind);
  {
    std::lock_guard lock(status_mutex_);
    status_.times.*phase.seconds += base::Seconds(end - begin).count() - apart_;
  }
  if (!ran.ok() || !*ran) return ran;
  if (recording_) {
    recorder->Add(trace::SpanKind::kIdle, done_, begin, action.index);
    recorder->Add(phase.span, begin, end, action.index);
  }
  done_ = end;
  return ran;
}

absl::StatusOr<bool> StageRunner::RunAny(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return RunForward(action);
    case ActionKind::kBackward:
      return RunBackward(action);
    case ActionKind::kNorm:
      return RunNorm(action.index);
    case ActionKind::kUpdate:
      return RunUpdate(action.index);
    case ActionKind::kEvaluate:
      return RunEvaluate(action.index);
    case ActionKind::kSnapshot:
      return RunSnapshot(action.index);
    case ActionKind::kKeep:
      return RunKeep(action.index);
  }
  return absl::InternalError("unknown action");
}

StageRunner::Phase StageRunner::PhaseOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {&PhaseTimes::forward, trace::SpanKind::kForward};
    case ActionKind::kBackward:
      return {&PhaseTimes::backward, trace::SpanKind::kBackward};
    case ActionKind::kUpdate:
    case ActionKind::kNorm:
      break;
    case ActionKind::kEvaluate:
      return {&PhaseTimes::evaluate, trace::SpanKind::kEvaluate};
    case ActionKind::kSnapshot:
    case ActionKind::kKeep:
      return {&PhaseTimes::checkpoint, trace::SpanKind::kCheckpoint};
  }
  return {&PhaseTimes::update, trace::SpanKind::kUpdate};
}

int64_t StageRunner::UpdateOf(const Action& action) const {
  const bool of_microbatch = action.kind == ActionKind::kForward ||
                             action.kind == ActionKind::kBackward;
  return of_microbatch ? action.index / schedule().accumulate + 1
                       : action.index;
}

absl::StatusOr<bool> StageRunner::RunUpdate(int64_t update) {
  SetActivity(absl::StrCat("update ", update));
  const int64_t newest = state_.stash().newest();
  const int64_t expected = ExpectedStaleness(schedule(), index(), update);
  if (staleness_ != expected || newest + 1 != update) {
    return absl::DataLossError(absl::StrCat(
        "stage ", index(), ", update ", update, ": measured staleness ",
        staleness_, " instead of ", expected, " (weight version ", newest,
        "); the schedule was not kept"));
  }
  double squares = 0;
  if (layer_squares_.empty()) {
    layer_squares_ = engine_.LayerSquareSums(grads_);
  }
  for (size_t i = layer_squares_.size(); i-- > 0;) squares += layer_squares_[i];
  if (left_out_) {
    state_.LeaveOut(update);
  } else {
    const base::SteadyTime begin = Now();
    const BasisSeconds before = engine_.basis_seconds();
    state_.Advance(update, staleness_,
                   schedule().global_norm ? norm_total_ : squares, refreshes_,
                   grads_);
    const BasisSeconds after = engine_.basis_seconds();
    const BasisSeconds spent = {after.rotate - before.rotate,
                                after.refresh - before.refresh};
    CountApart(&PhaseTimes::rotate, spent.rotate);
    CountApart(&PhaseTimes::refresh, spent.refresh);
    if (recording_) RecordBases(begin, spent, update);
  }

  UpdateReport report{.stage = index(),
                      .update = update,
                      .staleness = staleness_,
                      .staleness_expected = expected,
                      .gradient_square_sum = squares,
                      .basis = engine_.basis_health(),
                      .weights_finite = left_out_ || state_.weights_finite()};
  if (last()) report.loss = loss_sum_ / schedule().accumulate;
  loss_sum_ = 0;
  staleness_ = 0;
  layer_squares_.clear();
  {
    std::lock_guard lock(status_mutex_);
    status_.weight_version = update;
    status_.refreshes += refreshes_ ? 1 : 0;
  }
  events_.updated(report);
  return true;
}

absl::StatusOr<bool> StageRunner::RunSnapshot(int64_t update) {
  SetActivity(absl::StrCat("snapshot of update ", update));
  NoteInFlight();
  if (events_.snapshot(index(), update, state_)) return true;
  return Blocked(nullptr, "waits for the last snapshot to be written");
}

absl::StatusOr<bool> StageRunner::RunKeep(int64_t update) {
  SetActivity(absl::StrCat("keeps update ", update));
  NoteInFlight();
  if (events_.keep(index(), update, state_)) return true;
  return Blocked(nullptr, "waits for the last snapshot to reach its backup");
}

// For the copy of a state whose activations are part of it.
void StageRunner::NoteInFlight() {
  for (size_t i = 0; i < state_.in_flight.size(); ++i) {
    state_.in_flight[i].microbatch = in_flight_[i].microbatch;
  }
}

absl::StatusOr<bool> StageRunner::Blocked(const Link* link,
                                          const std::string& what) {
  SetActivity(what);
  if (link != nullptr && !link->status().ok()) {
    const absl::Status status = link->status();
    return absl::Status(
        status.code(),
        absl::StrCat("edge ", link->spec().identity.edge, ", stage ", index(),
                     " ", what, ": ", absl::string_view(status.message())));
  }
  return false;
}

// What the parameters spent one after the other, put together.
void StageRunner::RecordBases(base::SteadyTime begin, const BasisSeconds& spent,
                              int64_t update) {
  const auto after = [](base::SteadyTime time, double seconds) {
    return time + std::chrono::duration_cast<base::SteadyTime::duration>(
                      base::Seconds(seconds));
  };
  const base::SteadyTime rotated = after(begin, spent.rotate);
  const base::SteadyTime refreshed = after(rotated, spent.refresh);
  trace::Recorder& recorder = *options_.recorder;
  if (spent.rotate > 0) {
    recorder.Add(trace::SpanKind::kRotate, begin, rotated, update);
  }
  if (spent.refresh > 0) {
    recorder.Add(trace::SpanKind::kRefresh, rotated, refreshed, update);
  }
}

void StageRunner::CountApart(double PhaseTimes::*phase, double seconds) {
  apart_ += seconds;
  std::lock_guard lock(status_mutex_);
  status_.times.*phase += seconds;
}

void StageRunner::SetActivity(std::string activity) {
  std::lock_guard lock(status_mutex_);
  status_.activity = std::move(activity);
}

RunnerStatus StageRunner::status() const {
  std::lock_guard lock(status_mutex_);
  RunnerStatus status = status_;
  status.seconds = base::Seconds(Now() - made_).count();
  status.memory_bytes = memory_bytes_;
  status.stash_bytes = state_.stash().bytes();
  status.stash_versions = state_.stash().versions();
  return status;
}

}  // namespace gimbal::worker

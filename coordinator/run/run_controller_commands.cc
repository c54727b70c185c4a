// The verbs of the admin service.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "coordinator/run/run_controller.h"

namespace gimbal::coordinator {
namespace {

v1::CommandResponse Response(int64_t update, std::string message) {
  v1::CommandResponse response;
  response.set_update(update);
  response.set_message(std::move(message));
  return response;
}

base::SteadyTime::duration GraceOf(const v1::RunConfig& config) {
  return std::chrono::duration_cast<base::SteadyTime::duration>(
      base::SecondsOf(config.cluster().grace()));
}

}  // namespace

absl::StatusOr<v1::CommandResponse> RunController::Command(
    const v1::CommandRequest& request, base::SteadyTime now) {
  const std::string who =
      request.reason().empty() ? "asked for by a client" : request.reason();
  switch (request.verb()) {
    case v1::CommandRequest::VERB_PAUSE:
      return Pause(who);
    case v1::CommandRequest::VERB_RESUME:
      return Resume(who, now);
    case v1::CommandRequest::VERB_CHECKPOINT:
      return Checkpoint(who, now);
    case v1::CommandRequest::VERB_DRAIN:
      return Drain(who, now);
    case v1::CommandRequest::VERB_STOP:
      return Stop(who, now);
    case v1::CommandRequest::VERB_REFRESH:
      return Refresh(request, who);
    case v1::CommandRequest::VERB_TRACE:
      return Trace(request.trace_every(), who);
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "verb ", request.verb(),
          ": expected pause, resume, checkpoint, drain, stop, refresh or "
          "trace"));
  }
}

absl::Status RunController::RequireTraining(const char* verb) const {
  if (machine_.state() == v1::RUN_STATE_RUNNING ||
      machine_.state() == v1::RUN_STATE_PAUSED) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(verb, ": expected a run that is RUNNING or PAUSED, it is ",
                   ShortName(machine_.state()), " (", machine_.reason(), ")"));
}

void RunController::PutInForce(StandingOrder order) {
  if (order == order_) return;
  order_ = order;
  effects_.Record(kStandingOrder, ToText(order_));
}

// Those who hold the run have lived through it. When nobody does, whoever
// started the run again wants it to go on.
void RunController::TakeUpOrder(const std::vector<int64_t>& alive,
                                base::SteadyTime now) {
  const bool held = std::ranges::any_of(alive, [this](int64_t worker) {
    return table_.Find(worker)->facts.holding().run_id() == setup_.run_id;
  });
  if (!held) {
    PutTraceInForce(setup_.config.trace().every(), "trace.every");
    PutInForce({});
    if (stop_asked_) EndEarly(absl::StrCat("nobody holds it: ", *stop_asked_));
    return;
  }
  switch (order_.verb) {
    case v1::CommandRequest::VERB_PAUSE:
      limit_ = std::clamp(order_.update, until_, final_);
      break;
    case v1::CommandRequest::VERB_DRAIN:
      limit_ = final_ = std::clamp(order_.update, until_, final_);
      break;
    case v1::CommandRequest::VERB_STOP:
      limit_ = std::clamp(order_.update, until_, final_);
      if (limit_ < final_) {
        stop_at_ = limit_;
        requested_snapshots_.insert(limit_);
      }
      stop_deadline_ = now + GraceOf(setup_.config);
      break;
    default:
      break;
  }
  if (!stop_asked_ || order_.ends_the_run()) return;
  StopAfter(until_, *stop_asked_);
}

absl::StatusOr<v1::CommandResponse> RunController::Pause(
    const std::string& who) {
  GIMBAL_RETURN_IF_ERROR(RequireTraining("pause"));
  if (limit_ < final_) {
    return Response(limit_,
                    absl::StrCat("already asked to pause at update ", limit_));
  }
  // A checkpoint that was asked for may wait for a refresh plan.
  const int64_t at =
      until_ + (requested_snapshots_.contains(until_ + 1) ? 1 : 0);
  if (at >= final_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pause: the stages already run to the last update, ", final_));
  }
  limit_ = at;
  PutInForce({.verb = v1::CommandRequest::VERB_PAUSE, .update = limit_});
  effects_.Record(absl::StrCat("pauses at update ", limit_), who, limit_);
  return Response(limit_, absl::StrCat("pauses at update ", limit_));
}

absl::StatusOr<v1::CommandResponse> RunController::Resume(
    const std::string& who, base::SteadyTime now) {
  GIMBAL_RETURN_IF_ERROR(RequireTraining("resume"));
  if (limit_ >= final_) {
    return absl::FailedPreconditionError("resume: the run is not paused");
  }
  const int64_t from = limit_;
  limit_ = final_;
  PutInForce({});
  effects_.Record(absl::StrCat("goes on from update ", from), who, from);
  if (machine_.state() == v1::RUN_STATE_PAUSED) {
    Transition(v1::RUN_STATE_RUNNING, absl::StrCat("resumed: ", who));
  }
  Progress(now);
  return Response(from, absl::StrCat("goes on from update ", from));
}

absl::StatusOr<v1::CommandResponse> RunController::Checkpoint(
    const std::string& who, base::SteadyTime now) {
  GIMBAL_RETURN_IF_ERROR(RequireTraining("checkpoint"));
  if (until_ >= final_) {
    return Response(final_, absl::StrCat("the last updates run; the final "
                                         "checkpoint is that of update ",
                                         final_));
  }
  const int64_t update = until_ + 1;
  if (limit_ < final_ && update == final_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint: the run is paused and its next update, ", final_,
        ", is the last one; `gimbal resume` completes it, with a checkpoint"));
  }
  requested_snapshots_.insert(update);
  // A paused run moves on by this one update and pauses again.
  if (limit_ < final_) {
    limit_ = std::max(limit_, update);
    PutInForce({.verb = v1::CommandRequest::VERB_PAUSE, .update = limit_});
  }
  effects_.Record(absl::StrCat("takes a checkpoint at update ", update), who,
                  update);
  if (machine_.state() == v1::RUN_STATE_PAUSED) {
    Transition(v1::RUN_STATE_RUNNING,
               absl::StrCat("moves on to the checkpoint of update ", update));
  }
  GrantUntil(update);
  Progress(now);
  return Response(update,
                  absl::StrCat("takes a checkpoint at update ", update));
}

absl::StatusOr<v1::CommandResponse> RunController::Drain(const std::string& who,
                                                         base::SteadyTime now) {
  if (machine_.state() != v1::RUN_STATE_DRAINING) {
    GIMBAL_RETURN_IF_ERROR(RequireTraining("drain"));
    if (!schedule_.stash) {
      return absl::FailedPreconditionError(
          "drain: without a stash (pipeline.stash: none) nothing would be left "
          "to compute what was in flight again, so --resume could not go on "
          "with the same numbers; use `gimbal stop`");
    }
    // The stages may have fed microbatches of Delay(first stage) updates beyond
    // `until`: those must finish. The cut at `until` itself is already out.
    const int64_t in_flight = std::max<int64_t>(1, worker::Delay(schedule_, 0));
    final_ = std::min(final_, until_ + in_flight);
    limit_ = final_;
    PutInForce({.verb = v1::CommandRequest::VERB_DRAIN, .update = final_});
    effects_.Record(absl::StrCat("drains; the last update is ", final_), who,
                    final_);
    Transition(v1::RUN_STATE_DRAINING, who);
    Progress(now);
  }
  const int64_t last = stop_at_.value_or(final_);
  return Response(last, absl::StrCat("ends with update ", last));
}

absl::StatusOr<v1::CommandResponse> RunController::Stop(const std::string& who,
                                                        base::SteadyTime now) {
  if (exit_code_.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("stop: the run has ended: ", machine_.reason()));
  }
  if (machine_.state() == v1::RUN_STATE_PENDING) return StopPending(who, now);
  // A drain may wait for a worker that never comes.
  if (!stop_deadline_) stop_deadline_ = now + GraceOf(setup_.config);
  if (!order_.ends_the_run()) {
    const bool training = RequireTraining("stop").ok();
    if (!training && until_ == committed_) {
      EndEarly(absl::StrCat("nothing was done since: ", who));
      return Response(until_, absl::StrCat("stopped at update ", until_));
    }
    StopAfter(until_, who);
    // Otherwise once all stages are there again.
    if (training) {
      Transition(v1::RUN_STATE_DRAINING, who);
      Progress(now);
    }
  }
  return Response(order_.update,
                  absl::StrCat("stops at update ", order_.update,
                               " when its checkpoint is committed"));
}

// A run that never began ends at once. What an earlier life began may still be
// held by workers, which are about to find this coordinator.
absl::StatusOr<v1::CommandResponse> RunController::StopPending(
    const std::string& who, base::SteadyTime now) {
  if (!had_a_life_) {
    EndEarly(absl::StrCat("stopped while nothing was training: ", who));
    return Response(committed_.value_or(0),
                    "stopped at once: nothing was training");
  }
  if (!stop_asked_) {
    stop_asked_ = who;
    stop_deadline_ = now + GraceOf(setup_.config);
  }
  return Response(committed_.value_or(0),
                  "stops with a checkpoint once the workers are found that "
                  "hold the run");
}

// The first update that nobody was told of yet, or the last one of all.
void RunController::StopAfter(int64_t until, const std::string& who) {
  stop_at_.reset();
  limit_ = final_;
  if (until + 1 < final_) {
    stop_at_ = limit_ = until + 1;
    requested_snapshots_.insert(*stop_at_);
  }
  PutInForce({.verb = v1::CommandRequest::VERB_STOP, .update = limit_});
  effects_.Record(absl::StrCat("stops at update ", limit_), who, limit_);
}

absl::StatusOr<v1::CommandResponse> RunController::Refresh(
    const v1::CommandRequest& request, const std::string& who) {
  GIMBAL_RETURN_IF_ERROR(RequireTraining("refresh"));
  if (!rotates_) {
    return absl::FailedPreconditionError(
        "refresh: the run's optimizer has no bases");
  }
  if (until_ >= final_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "refresh: the stages already run to the last update, ", final_));
  }
  const int64_t from = std::max(until_ + 1, refreshable_);
  if (refresh_.IsAsked(request.refresh_policy(), request.refresh_period(),
                       from)) {
    return Response(from, "bases are already refreshed so");
  }
  GIMBAL_ASSIGN_OR_RETURN(RefreshChange change,
                          refresh_.Change(request.refresh_policy(),
                                          request.refresh_period(), from));
  change.reason = absl::StrCat(change.reason, "; ", who);
  GIMBAL_RETURN_IF_ERROR(TakeRefreshChange(change));
  return Response(change.from, absl::StrCat("from update ", change.from,
                                            " on, bases are refreshed every ",
                                            absl::StrJoin(change.periods, ", "),
                                            " updates, by stage"));
}

// Like an order, it outlives the coordinator.
void RunController::PutTraceInForce(int64_t every, const std::string& who) {
  if (every == trace_every_) return;
  trace_every_ = every;
  effects_.Record(kTraceInForce, absl::StrCat(TraceText(every), "; ", who));
}

// Workers that come later are told with their assignment.
absl::StatusOr<v1::CommandResponse> RunController::Trace(
    int64_t every, const std::string& who) {
  if (exit_code_.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("trace: the run has ended: ", machine_.reason()));
  }
  if (every < 0) {
    return absl::InvalidArgumentError(absl::StrCat("trace: found one of ",
                                                   every,
                                                   " updates, expected 1 or "
                                                   "more, or 0 to stop"));
  }
  const int64_t update = statistics_.last() ? statistics_.last()->step : 0;
  const std::string where =
      every == 0 ? "" : absl::StrCat(", into ", setup_.run_dir, "/trace");
  const char* already = every == trace_every_ ? "already so: " : "";
  PutTraceInForce(every, who);
  TellAll(TraceMessage());
  return Response(update, absl::StrCat(already, TraceText(every), where));
}

v1::CoordinatorMessage RunController::TraceMessage() const {
  v1::CoordinatorMessage message;
  message.set_generation(generation_);
  v1::TraceSetting& trace = *message.mutable_trace();
  trace.set_every(trace_every_);
  trace.set_folder(absl::StrCat(setup_.run_dir, "/trace"));
  trace.set_max_bytes(int64_t{setup_.config.trace().max_mb()} << 20);
  return message;
}

}  // namespace gimbal::coordinator

#include "coordinator/run/run_state.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gimbal::coordinator {
namespace {

// States that may follow, FAILED apart.
std::vector<v1::RunState> Successors(v1::RunState from) {
  switch (from) {
    case v1::RUN_STATE_PENDING:
      return {v1::RUN_STATE_ASSIGNING, v1::RUN_STATE_STOPPED,
              v1::RUN_STATE_COMPLETED};
    case v1::RUN_STATE_ASSIGNING:
      return {v1::RUN_STATE_CONNECTING, v1::RUN_STATE_RECOVERING,
              v1::RUN_STATE_STOPPED};
    case v1::RUN_STATE_CONNECTING:
      return {v1::RUN_STATE_RUNNING, v1::RUN_STATE_RECOVERING,
              v1::RUN_STATE_STOPPED};
    case v1::RUN_STATE_RUNNING:
      return {v1::RUN_STATE_PAUSED, v1::RUN_STATE_DRAINING,
              v1::RUN_STATE_RECOVERING, v1::RUN_STATE_COMPLETED};
    case v1::RUN_STATE_PAUSED:
      return {v1::RUN_STATE_RUNNING, v1::RUN_STATE_DRAINING,
              v1::RUN_STATE_RECOVERING};
    case v1::RUN_STATE_DRAINING:
      return {v1::RUN_STATE_RECOVERING, v1::RUN_STATE_COMPLETED,
              v1::RUN_STATE_STOPPED};
    case v1::RUN_STATE_RECOVERING:
      return {v1::RUN_STATE_ASSIGNING, v1::RUN_STATE_STOPPED,
              v1::RUN_STATE_COMPLETED, v1::RUN_STATE_WAITING_FOR_CAPACITY};
    case v1::RUN_STATE_WAITING_FOR_CAPACITY:
      return {v1::RUN_STATE_ASSIGNING, v1::RUN_STATE_STOPPED,
              v1::RUN_STATE_COMPLETED};
    default:
      return {};
  }
}

}  // namespace

absl::Status RunStateMachine::Transition(v1::RunState to,
                                         const std::string& reason) {
  const std::vector<v1::RunState> successors = Successors(state_);
  const bool allowed =
      std::find(successors.begin(), successors.end(), to) != successors.end() ||
      (to == v1::RUN_STATE_FAILED && !ended());
  if (!allowed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a run that is ", ShortName(state_), " cannot become ", ShortName(to)));
  }
  state_ = to;
  reason_ = reason;
  return absl::OkStatus();
}

bool RunStateMachine::ended() const {
  return state_ == v1::RUN_STATE_COMPLETED || state_ == v1::RUN_STATE_STOPPED ||
         state_ == v1::RUN_STATE_FAILED;
}

std::string ShortName(v1::RunState state) {
  return v1::RunState_Name(state).substr(sizeof("RUN_STATE_") - 1);
}

}  // namespace gimbal::coordinator

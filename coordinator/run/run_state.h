// The state of a run and the one gate through which it changes. Pure; not
// thread-safe.
//
//   PENDING ----> ASSIGNING -> CONNECTING -> RUNNING <--> PAUSED
//                     ^             |         |   |         |
//                     |             v         v   |         |
//                     +------- RECOVERING <-------+---------+
//                                                 |         |
//                               DRAINING <--------+---------+
//
// RECOVERING becomes WAITING_FOR_CAPACITY when workers stay away for long,
// which is left as RECOVERING is.
//
// Ends: COMPLETED from RUNNING and DRAINING, and from PENDING and RECOVERING
// when the newest checkpoint turns out to be the last one; STOPPED from
// PENDING, ASSIGNING, CONNECTING, RECOVERING and DRAINING; FAILED from every
// state that is no end. ASSIGNING, CONNECTING and DRAINING may also fall back
// to RECOVERING.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "gimbal/v1/types.pb.h"

namespace gimbal::coordinator {

class RunStateMachine {
 public:
  // FAILED_PRECONDITION, and no change, when the diagram has no such arrow.
  absl::Status Transition(v1::RunState to, const std::string& reason);

  // Why it is in this state, when more is known than at the change.
  void Explain(const std::string& reason) { reason_ = reason; }

  v1::RunState state() const { return state_; }
  // Of the last change, or what explains it since.
  const std::string& reason() const { return reason_; }
  bool ended() const;

 private:
  v1::RunState state_ = v1::RUN_STATE_PENDING;
  std::string reason_ = "waits for workers";
};

// "RUNNING" for RUN_STATE_RUNNING.
std::string ShortName(v1::RunState state);

}  // namespace gimbal::coordinator

// Time in traces: nanoseconds since the Unix epoch as the process took them to
// be when it began, moving on with the steady clock. So it never jumps, and
// those of two processes differ by a constant and the drift of their machines.
// A process that is started again has another clock.
//
// GIMBAL_TRACE_SKEW sets the clock of each process wrong by up to so many
// seconds, by another amount in each: for tests.
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace gimbal::trace {

// Thread-safe.
int64_t ClockNs(base::SteadyTime time);

// Which clock that is: positive, drawn at random by every process.
int64_t ClockId();

// What an answer tells of another process's clock.
struct ClockSample {
  int64_t at_ns = 0;           // on this process's clock
  int64_t offset_ns = 0;       // to be added to it for the other's
  int64_t uncertainty_ns = 0;  // the true offset is within
  int64_t clock = 0;           // the other one; 0: not known
};

// Sent and arrived: on this clock; received and answered: on the other one.
// The way there and the way back take an unknown share of the time in between.
ClockSample MeasureClock(int64_t sent_ns, int64_t received_ns,
                         int64_t answered_ns, int64_t arrived_ns);

}  // namespace gimbal::trace

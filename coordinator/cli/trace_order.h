// What messages say of clocks: none is received before it was sent. Clock
// samples are exact to a fraction of a millisecond only, messages are faster.
// Pure.
#pragma once

#include "coordinator/cli/merged_trace.h"

namespace gimbal::cli {

// Moves the processes of a trace with flows on the axis, by as little as it
// takes for every message to be received after it was sent:
//
// - those of other groups to where the messages they exchange with group 0 take
//   equally long both ways;
// - then each process by a constant;
// - and where no constants will do, since a clock did not go steadily, a
// process
//   from the message on that would be too early. Whatever the clocks are, what
//   comes after something still does.
void OrderByMessages(MergedTrace& trace);

}  // namespace gimbal::cli

// A merged trace in which no message leads back in time, whatever the clocks
// are. Pure.
#pragma once

#include "coordinator/cli/merged_trace.h"

namespace gimbal::cli {

// Makes each process late from the message on that would be received before it
// was sent, by as little as it takes; spans that are open there become longer.
// Messages that contradict the order of others lose their flow. Does nothing
// when all is in order.
void StretchReversed(MergedTrace& trace);

}  // namespace gimbal::cli

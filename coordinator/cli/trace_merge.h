// Puts traces of several processes on one time axis, the coordinator's: first
// by their clock samples (trace_clocks.h), then by their messages
// (trace_order.h). Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "coordinator/cli/merged_trace.h"

namespace gimbal::cli {

// Files of the same process become one.
MergedTrace MergeTraces(std::vector<trace::TraceContent> files);

// Seconds of each stage by what they were spent on ("forward", ..., "idle"),
// each moment counted once: a send within a forward is a send.
std::map<int, std::map<std::string, double>> SecondsByStage(
    const MergedTrace& trace);

}  // namespace gimbal::cli

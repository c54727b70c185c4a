// What whoever reads a merged trace has to know of it. Pure.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/merged_trace.h"

namespace gimbal::cli {

// What stands where it does for want of better knowledge, and how far it may be
// off; what is missing. A sentence each.
std::vector<std::string> DoubtsOf(const MergedTrace& trace);

// How far the process's place on the axis may be off; negative: not known.
int64_t DoubtNs(const ProcessTrace& process);

}  // namespace gimbal::cli

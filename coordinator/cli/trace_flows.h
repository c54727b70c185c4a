// Which receive is of which send. Pure.
#pragma once

#include <vector>

#include "coordinator/cli/merged_trace.h"

namespace gimbal::cli {

// Of processes whose spans stand on the axis as well as their clocks are known.
std::vector<Flow> FindFlows(const std::vector<ProcessTrace>& processes);

}  // namespace gimbal::cli

// The clocks of traced processes on one axis, from their clock samples.
//
// A sample sets a process's clock against that of one coordinator process. A
// coordinator that was started again, perhaps on another machine, has another
// clock: the workers that have measured both link the two. Pure.
#pragma once

#include <vector>

#include "common/trace/clock_line.h"

namespace gimbal::cli {

struct ProcessClock {
  trace::ClockLine line;  // to the axis; uncertainty < 0: never measured
  // Clocks of one group are known against each other. The axis is that of group
  // 0; others are on it as far as the machines' clocks agree.
  int group = 0;
};

// In the order of the processes. Group 0 is the one with the most processes.
std::vector<ProcessClock> SetClocks(
    const std::vector<std::vector<trace::ClockSample>>& samples_by_process);

}  // namespace gimbal::cli

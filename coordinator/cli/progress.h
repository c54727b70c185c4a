// The state of a run in words: one line for a log, a block for a terminal.
// Pure functions of the coordinator's answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

// "running", "waiting for capacity", ...
std::string StateName(v1::RunState state);

// "update 120/600  loss 2.4312  valid 2.5100 at 100  12,340 tokens/s
//  staleness 3,2,1,0 (expected 3,2,1,0)  ETA 1 m 05 s", all in one line.
std::string ProgressLine(const v1::GetStatusResponse& status);

struct TextSize {
  size_t columns = 80;
  size_t lines = 24;
};

// State, progress bar, losses and the stages, one string per line; who holds
// the run up when it stands still. No larger than `size`: what is of less use
// is left out whole, other lines end with "…", and "+10 stages" stands for the
// rows that have no place.
std::vector<std::string> ProgressBlock(const v1::GetStatusResponse& status,
                                       TextSize size = {});

// All that is known, for `gimbal status`, in so many columns.
std::string StatusReport(const v1::GetStatusResponse& status,
                         size_t columns = TextSize().columns);

}  // namespace gimbal::cli

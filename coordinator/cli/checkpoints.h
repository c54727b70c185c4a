// `gimbal checkpoint ls|verify|reshard`: the checkpoints of a run folder. Each
// returns the exit code.
#pragma once

#include <string>

#include "coordinator/layout/reshard.h"

namespace gimbal::cli {

// Running or not.
int RunCheckpointList(const std::string& run_dir);

// Reads every file of every committed checkpoint and compares sizes and
// hashes; kBadUsage when one is bad or there is none.
int RunCheckpointVerify(const std::string& run_dir);

// Says what was made and how it goes on.
int RunCheckpointReshard(const coordinator::ReshardOptions& options);

}  // namespace gimbal::cli

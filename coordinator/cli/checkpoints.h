// `gimbal checkpoint ls|verify`: the checkpoints of a run folder, running or
// not. Each returns the exit code.
#pragma once

#include <string>

namespace gimbal::cli {

int RunCheckpointList(const std::string& run_dir);

// Reads every file of every committed checkpoint and compares sizes and
// hashes; kBadUsage when one is bad or there is none.
int RunCheckpointVerify(const std::string& run_dir);

}  // namespace gimbal::cli

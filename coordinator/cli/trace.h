// `gimbal trace merge`: what the workers of a run recorded, as one file for a
// trace viewer.
#pragma once

#include <string>

namespace gimbal::cli {

struct TraceMergeOptions {
  std::string run_dir;
  std::string out;  // empty: RUN_DIR/trace/trace.json
};

// Prints where the time of each stage went. Returns the exit code.
int RunTraceMerge(const TraceMergeOptions& options);

}  // namespace gimbal::cli

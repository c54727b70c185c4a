// `gimbal compare`: runs side by side as a table and as a plot.
#pragma once

#include <string>
#include <vector>

namespace gimbal::cli {

struct CompareOptions {
  std::vector<std::string> run_dirs;
  std::vector<double> targets;  // empty: DefaultTargets
  std::string plot;             // SVG file to write; empty: none
  std::string title = "Training loss";
};

// Returns the exit code.
int RunCompare(const CompareOptions& options);

}  // namespace gimbal::cli

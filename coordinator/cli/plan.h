// `gimbal plan`: what each stage of a config would hold; nothing is run.
#pragma once

#include <string>
#include <vector>

namespace gimbal::cli {

struct PlanOptions {
  std::string config_path;
  std::vector<std::string> overrides;
  bool json = false;
};

// Returns the exit code.
int RunPlan(const PlanOptions& options);

}  // namespace gimbal::cli

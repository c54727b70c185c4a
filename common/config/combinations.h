// Which optimizers, schedules and mitigations of staleness make sense together.
// Internal to common/config.
#pragma once

#include <optional>
#include <string>

#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

struct BrokenCombination {
  std::string path;  // of the key to change
  std::string what;  // the reason, and what to do
};

// The first one that is broken.
std::optional<BrokenCombination> FindBrokenCombination(
    const v1::RunConfig& config);

}  // namespace gimbal::config

// What must hold between keys, once each has passed its own rule. Internal to
// common/config.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/config/sources.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

// The first broken condition, as "WHERE: PATH: WHAT"; WHERE is the key's
// origin, or `name` when it has its default.
absl::Status Validate(const v1::RunConfig& config, const std::string& name,
                      const Origins& origins);

}  // namespace gimbal::config

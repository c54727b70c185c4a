// The shortest config that loads, for the tests of this folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config_io.h"

namespace gimbal::config {

inline constexpr char kMinimalYaml[] =
    "run: {steps: 100}\n"
    "data: {train: corpus}\n"
    "model: {layers: 4, hidden: 32, heads: 4, context: 16}\n";

// The minimal config with `--set` overrides.
inline absl::StatusOr<v1::RunConfig> Load(
    const std::vector<std::string>& overrides = {}) {
  return ParseRunConfig(kMinimalYaml, "test.yaml", overrides);
}

}  // namespace gimbal::config

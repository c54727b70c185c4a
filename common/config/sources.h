// The three places that values of a config come from, applied in this order:
// the YAML text, `--set` overrides, the schema's defaults. Internal to
// common/config.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

// Where each given key was given: path -> "kjv.yaml:12" or "--set a.b=c".
using Origins = std::map<std::string, std::string>;

// INVALID_ARGUMENT "WHERE: PATH: WHAT".
absl::Status KeyError(const std::string& where, const std::string& path,
                      const std::string& what);

absl::Status ReadYaml(const std::string& text, const std::string& name,
                      v1::RunConfig& config, Origins& origins);

// `override` is "a.b=c"; c is read as YAML, nothing after '=' is "".
absl::Status ApplyOverride(const std::string& override, v1::RunConfig& config,
                           Origins& origins);

// Sets every key without an origin; an error when one of them is required.
absl::Status FillDefaults(const std::string& name, const Origins& origins,
                          v1::RunConfig& config);

}  // namespace gimbal::config

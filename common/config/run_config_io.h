// Reads a run's config: YAML text -> v1::RunConfig, strictly. The schema, the
// defaults, the bounds and the help texts are those of
// proto/gimbal/v1/run_config.proto (option `rule`), read by reflection.
//
// Every error is INVALID_ARGUMENT (NOT_FOUND for a missing file) and says
// file:line, the key's full path, what was found and what was expected:
//   kjv.yaml:12: optimizer.lrr: unknown key; did you mean optimizer.lr?
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

// Reads the file, applies `--set a.b=c` overrides in order (their errors name
// `--set a.b=c` instead of a line), fills in defaults and validates.
absl::StatusOr<v1::RunConfig> LoadRunConfig(
    const std::string& path, std::span<const std::string> overrides);

// The same for text; `name` stands for the file in errors.
absl::StatusOr<v1::RunConfig> ParseRunConfig(
    const std::string& text, const std::string& name,
    std::span<const std::string> overrides);

// The resolved config as YAML that LoadRunConfig reads back to the same
// message.
std::string ToYaml(const v1::RunConfig& config);

// SHA-256 (lower-case hex) over everything that can change a number of the run;
// keys with `affects_numbers: false` are left out.
std::string ConfigDigest(const v1::RunConfig& config);

// The first key whose values differ between two configs and count for the
// digest, as "key: X here, Y there"; empty when there is none.
std::string FirstDifference(const v1::RunConfig& a, const v1::RunConfig& b);

// All keys with type, default and meaning, one per line, for --help.
std::string DescribeKeys();

}  // namespace gimbal::config

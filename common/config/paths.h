// Paths of a config as every process of a run must see them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

// The path without `.` and `..`, from the root; empty stays empty.
// INVALID_ARGUMENT, naming `what`, for bytes that are not UTF-8: messages
// between processes could not carry them.
absl::StatusOr<std::string> AbsolutePath(const std::string& what,
                                         const std::string& path);

// Makes every path of the config absolute.
absl::Status ResolvePaths(v1::RunConfig& config);

}  // namespace gimbal::config

// The memory that a run's stages need together, beside what this machine has:
// `gimbal train` runs all of them here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::cli {

// Bytes of all stages, as `gimbal plan` adds them up. Requires a config that
// passed config::LoadRunConfig.
absl::StatusOr<int64_t> PlannedBytes(const v1::RunConfig& config);

// Bytes that new processes may take: the kernel's MemAvailable, or the smallest
// limit of this process's control groups (version 1 or 2) where that is less.
// Empty when the system does not say. `root` stands before /proc and /sys.
std::optional<int64_t> AvailableBytes(const std::string& root = "");

// What to say when `needed` bytes are more than `available`; empty otherwise.
std::string MemoryWarning(int64_t needed, std::optional<int64_t> available);

}  // namespace gimbal::cli

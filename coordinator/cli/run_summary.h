// summary.json of a run folder: read, and shown as the end of `gimbal train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::cli {

struct StageSummary {
  int stage = 0;
  std::string layers;
  int64_t delay_expected = 0;
  double staleness_mean = 0;
  int64_t staleness_max = 0;
  double busy_fraction = 0;
  int64_t refreshes = 0;
  int restarts = 0;
};

struct RunSummary {
  int64_t steps = 0;
  std::optional<double> final_loss;  // mean of the last kLossWindow updates
  std::optional<double> valid_loss;
  int64_t tokens = 0;
  double tokens_per_second = 0;
  double wall_seconds = 0;
  std::string exit_reason;
  int64_t left_out = 0;  // minibatches
  std::vector<StageSummary> stages;
};

// NOT_FOUND without the file; INVALID_ARGUMENT, naming it, when it is not what
// a coordinator writes.
absl::StatusOr<RunSummary> ReadRunSummary(const std::string& run_dir);

std::string FormatSummary(const RunSummary& summary);

}  // namespace gimbal::cli

// What a run folder says about a run, finished or not: its config and the rows
// of metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::cli {

struct MetricsRow {
  int64_t step = 0;
  double loss = 0;
  int64_t tokens = 0;  // since the start of the run
  double seconds = 0;  // likewise
  std::optional<double> valid_loss;
};

struct RunRecord {
  std::string label;             // the folder's name
  std::string method;            // optimizer
  std::string schedule;          // "async-1f1b", ...
  int stages = 1;                // P
  std::vector<MetricsRow> rows;  // by update from 1, at least one
};

// NOT_FOUND or INVALID_ARGUMENT with file and line when the folder is no run,
// holds no update yet, or a file is damaged. A torn last line of a run that is
// being written is left out.
absl::StatusOr<RunRecord> ReadRunRecord(const std::string& run_dir);

}  // namespace gimbal::cli

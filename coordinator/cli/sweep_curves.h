// The finished runs of a sweep in one text file: enough for its tables and
// figures, and for not training those runs again once their folders are gone.
// Pure.
//
// A line per run, with commas between:
//   name, digest of the config, updates, seconds, valid loss or nothing,
//   losses: each the mean of ten updates, the last one of those that are left
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/run_record.h"

namespace gimbal::cli {

// `record` has a row per update, each with the mean loss of its ten; time and
// valid loss are in the last one. So updates to a loss are known to within ten.
struct FinishedRun {
  std::string digest;
  RunRecord record;
};

using FinishedRuns = std::map<std::string, FinishedRun>;  // by name

// What reading the run's line back would give.
FinishedRun Condense(const std::string& digest, const RunRecord& record);

std::string CurvesCsv(const FinishedRuns& runs);

// INVALID_ARGUMENT with `name`, for the file, and the line.
absl::StatusOr<FinishedRuns> ParseCurves(const std::string& text,
                                         const std::string& name);

}  // namespace gimbal::cli

// Writes the tables and figures of a sweep.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/cli/sweep_spec.h"
#include "coordinator/cli/sweep_table.h"

namespace gimbal::cli {

absl::Status WriteSweepReport(const SweepSpec& spec,
                              const SweepRecords& records,
                              const std::string& folder);

}  // namespace gimbal::cli

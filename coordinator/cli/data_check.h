// Whether a config's data is what a run of it needs.
#pragma once

#include "absl/status/status.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::cli {

// Opens the data as the workers will; the same errors. Evaluations must not
// count samples twice, but of a run that `resume`s: it stays as it began.
absl::Status CheckData(const v1::RunConfig& config, bool resume);

}  // namespace gimbal::cli

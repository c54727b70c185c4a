// What the run's data is, as part of its identity.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// One line each for data.train and data.valid: the fingerprint of the contents
// (worker/data/fingerprint.h), or "none". Equal for equal data, wherever it is.
absl::StatusOr<std::string> DataIdentity(const v1::RunConfig& config);

}  // namespace gimbal::coordinator

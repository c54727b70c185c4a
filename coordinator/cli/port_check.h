// Whether the addresses of the config can be listened on, asked before a run
// starts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::cli {

// FAILED_PRECONDITION, naming the config key and the address, when something
// listens on HOST:PORT already; NOT_FOUND when HOST is not of this machine;
// INVALID_ARGUMENT for what is no address. Port 0 stands for any free one.
absl::Status CheckPortFree(const std::string& key, const std::string& address);

// CheckPortFree for both addresses of a run, which must not be the same.
absl::Status CheckAddresses(const v1::ClusterSection& cluster);

}  // namespace gimbal::cli

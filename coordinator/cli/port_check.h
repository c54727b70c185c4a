// Whether a fixed port of the config is free, asked before a run starts.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace gimbal::cli {

// FAILED_PRECONDITION, naming the config key and the address, when something
// listens on HOST:PORT already; INVALID_ARGUMENT for what is no address of this
// machine. Port 0 stands for any free one and is always fine.
absl::Status CheckPortFree(const std::string& key, const std::string& address);

}  // namespace gimbal::cli

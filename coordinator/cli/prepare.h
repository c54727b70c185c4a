// `gimbal prepare`: text files to a folder of tokens.
#pragma once

#include "worker/data/prepare.h"

namespace gimbal::cli {

// Returns the exit code.
int RunPrepare(const worker::PrepareOptions& options);

}  // namespace gimbal::cli

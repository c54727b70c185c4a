// `gimbal eval`: loss of a trained run over held-out data.
#pragma once

#include <cstdint>
#include <string>

namespace gimbal::cli {

struct EvalOptions {
  std::string run_dir;
  std::string data;     // instead of the config's held-out data; same format
  int64_t windows = 0;  // 0: all
};

// Returns the exit code.
int RunEval(const EvalOptions& options);

}  // namespace gimbal::cli

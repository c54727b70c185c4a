// `gimbal generate`: text that a trained run continues from a prompt.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/cli/sampling.h"

namespace gimbal::cli {

struct GenerateOptions {
  std::string run_dir;
  std::string prompt = "\n";
  int tokens = 400;
  uint64_t seed = 1;
  Sampling sampling;
};

// Prints prompt and continuation as they come. Returns the exit code.
int RunGenerate(const GenerateOptions& options);

}  // namespace gimbal::cli

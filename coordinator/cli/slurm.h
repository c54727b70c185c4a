// `gimbal slurm render`: a config as a batch script for sbatch.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/slurm_script.h"

namespace gimbal::cli {

struct SlurmOptions {
  SlurmJob job;     // paths as given; an empty bin_dir is that of this program
  std::string out;  // file; empty: standard output
};

// Returns the exit code.
int RunSlurmRender(const SlurmOptions& options);

}  // namespace gimbal::cli

// The batch script of a run on Slurm: one coordinator, which lives with the
// script on the job's first node, and one step per worker, so that a worker
// that dies is started again alone. Pure text.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::cli {

// All paths are absolute.
struct SlurmJob {
  std::string config;   // path
  std::string run_dir;  // path
  std::string bin_dir;  // folder of the programs
  int workers = 0;      // that share the stages; 0: one per stage
  int nodes = 0;        // 0: one per worker, spares included
  int cpus = 0;         // per worker; 0: as many as it computes with
  int gpus = 0;         // per worker
  std::string memory;   // per node, as Slurm writes it; empty: its default
  std::string time;     // as Slurm writes it; empty: the partition's limit
  std::string partition;
  bool exclusive = false;            // no other jobs on the nodes
  bool requeue = true;               // go on by itself after an interruption
  std::vector<std::string> options;  // of sbatch, e.g. --account=x
};

// INVALID_ARGUMENT, naming the option, for what cannot become a job. Requires a
// config that passed config::LoadRunConfig.
absl::StatusOr<std::string> SlurmScript(const SlurmJob& job,
                                        const v1::RunConfig& config);

}  // namespace gimbal::cli

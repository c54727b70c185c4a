// `gimbal checkpoint reshard`: a new run folder that goes on with other stages
// from a checkpoint of a run. The run itself stays as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::coordinator {

struct ReshardOptions {
  std::string run_dir;
  std::string out;  // folder to make
  int stages = 0;
  std::vector<int> split;  // empty: auto
  int64_t update = 0;      // of the checkpoint; 0: the newest good one
};

struct Resharded {
  int64_t update = 0;
  bool finished = false;  // it is the last one of the run
  std::string decision;   // "2 stages from update 21 on, before 4"
};

// The new folder holds the config with its new layout, the checkpoint without
// what only the former stages need (hard links where the file system has them),
// the metrics up to it, and a store of its own. It appears whole or not at all.
//   NOT_FOUND            `run_dir` holds no run, or no such checkpoint
//   ALREADY_EXISTS       the run is being trained, or `out` is there
//   INVALID_ARGUMENT     stages that cannot be, or `out` inside the run
//   DATA_LOSS            the checkpoint or a row of the metrics is damaged
absl::StatusOr<Resharded> Reshard(const ReshardOptions& options);

}  // namespace gimbal::coordinator

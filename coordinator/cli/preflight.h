// Everything that `gimbal train` checks before it writes or starts anything.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"
#include "gimbal/v1/run_config.pb.h"
#include "worker/transport/device_links.h"

namespace gimbal::cli {

struct TrainRequest {
  std::string config_path;  // may be empty with `resume`: the run folder's
  std::vector<std::string> overrides;
  std::string run_dir;  // empty: runs/NAME-YYYYmmdd-HHMMSS
  int workers = 0;      // 0: chosen by DefaultWorkers
  std::string device = "auto";
  bool resume = false;
};

struct TrainPlan {
  v1::RunConfig config;  // resolved; every path is absolute
  std::string run_dir;
  rpc::Credentials credentials;
  int workers = 1;
  std::string device;     // of the workers: cpu or cuda
  int gpus = 0;           // with cuda: how many there are for them
  int stages_before = 0;  // a run that goes over to others had so many, else 0
};

// Loads the config and checks it against the machine: data readable, within
// the vocabulary and long enough for training and evaluations; run folder free
// (or, with `resume`, of the same config, the stages apart) and writable;
// folder of the checkpoints writable and free; addresses free, and not reached
// by other hosts without TLS or a token, whose files are good; device present.
// Writes nothing. `unix_seconds` names a run folder that was not given.
absl::StatusOr<TrainPlan> Preflight(const TrainRequest& request,
                                    double unix_seconds);

// Workers of a local run: one per stage, but no more than the machine carries:
// one per GPU, where they compute on those.
int DefaultWorkers(int stages, int cores, int gpus);

// INVALID_ARGUMENT when the config asks for NCCL and these workers cannot have
// it, with the reason and what can be done instead.
absl::Status CheckTransport(const TrainPlan& plan,
                            const worker::DeviceLinks& links);

}  // namespace gimbal::cli

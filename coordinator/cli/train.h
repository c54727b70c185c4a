// `gimbal train`: runs a coordinator and its workers on this machine, or
// follows a coordinator that runs already.
#pragma once

#include <string>

#include "coordinator/cli/preflight.h"

namespace gimbal::cli {

struct TrainOptions {
  TrainRequest request;
  std::string coordinator;  // host:port to follow; empty: start a cluster
  double log_every = 5;     // seconds between lines when not on a terminal
  std::string log_level = "info";
  std::string log_format = "text";
};

// Returns the exit code.
int RunTrain(const TrainOptions& options);

}  // namespace gimbal::cli

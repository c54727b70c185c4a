// The verbs that talk to a running coordinator: `gimbal status`, and `gimbal
// pause|resume|checkpoint|drain|stop|refresh` and `gimbal trace start|stop`.
// Each returns the exit code.
#pragma once

#include <string>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

// Which coordinator: an address, or the run folder that names it.
struct Target {
  std::string coordinator;  // host:port
  std::string run_dir;
};

struct StatusOptions {
  Target target;
  bool json = false;   // the coordinator's answer as one JSON object
  bool watch = false;  // again every second until the run ends or ^C
};

int RunStatus(const StatusOptions& options);

// Fills in who asks.
int RunCommand(const Target& target, const v1::CommandRequest& request);

struct RefreshOptions {
  Target target;
  std::string policy;
  double period = 10;
};

int RunRefresh(const RefreshOptions& options);

}  // namespace gimbal::cli

// `gimbal doctor`: checks a node, and a config on it, before a run.
#pragma once

#include <string>

namespace gimbal::cli {

struct DoctorOptions {
  std::string config_path;  // empty: the node alone
  std::string run_dir;      // empty: the working folder
  std::string coordinator;  // host:port; empty: none runs yet
  std::string advertise;    // by which others reach this node; empty: unsaid
  int workers = 1;          // on this node
  int gpus = 0;             // that have to be there
  bool json = false;
};

// One line per check; kBadUsage when one failed, kDone otherwise.
int RunDoctor(const DoctorOptions& options);

}  // namespace gimbal::cli

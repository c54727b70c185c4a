// One coordinator per run folder: an exclusive lock on
// RUN_DIR/coordinator.lock, which the system releases when the process ends.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/io/unique_fd.h"

namespace gimbal::coordinator {

class RunLock {
 public:
  // ALREADY_EXISTS, with the pid of the holder, while another process has it.
  static absl::StatusOr<RunLock> Take(const std::string& run_dir);

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  io::UniqueFd fd_;
};

}  // namespace gimbal::coordinator

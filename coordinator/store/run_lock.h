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

  // NOT_FOUND when the folder was deleted or moved since: what is written to
  // open files of it is lost, or elsewhere.
  absl::Status CheckInPlace() const;

 private:
  RunLock(const std::string& run_dir, int fd) : run_dir_(run_dir), fd_(fd) {}
  std::string run_dir_;
  io::UniqueFd fd_;
};

}  // namespace gimbal::coordinator

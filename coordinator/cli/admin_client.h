// Client of a running coordinator's AdminService. Every call has a deadline,
// so the command line answers even when the coordinator hangs.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

class AdminClient {
 public:
  // Connects on the first call; `address` is host:port.
  explicit AdminClient(const std::string& address);
  ~AdminClient();

  // UNAVAILABLE (with the address and what to do) when nothing answers.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(
      base::Seconds timeout = base::Seconds(2)) const;
  absl::StatusOr<v1::CommandResponse> Command(
      v1::CommandRequest::Verb verb, const std::string& reason,
      base::Seconds timeout = base::Seconds(10)) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// RUN_DIR/coordinator.json, which the coordinator keeps while it serves.
std::string CoordinatorFile(const std::string& run_dir);

// The address in that file; NOT_FOUND when no coordinator serves the run.
absl::StatusOr<std::string> CoordinatorAddress(const std::string& run_dir);

}  // namespace gimbal::cli

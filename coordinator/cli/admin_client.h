// Client of a running coordinator's AdminService. Every call has a deadline,
// so the command line answers even when the coordinator hangs.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/rpc/credentials.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

class AdminClient {
 public:
  // Connects on the first call; `address` is host:port.
  AdminClient(const std::string& address, const rpc::Credentials& credentials);
  ~AdminClient();

  // UNAVAILABLE (with the address and what to do) when nobody serves there,
  // DEADLINE_EXCEEDED when whoever does is silent.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(
      base::Seconds timeout = base::Seconds(2)) const;
  // The same for a caller that asks at least every second until it has seen the
  // run's end: the coordinator stays until it has.
  absl::StatusOr<v1::GetStatusResponse> WatchStatus(
      base::Seconds timeout = base::Seconds(2)) const;
  absl::StatusOr<v1::CommandResponse> Command(
      const v1::CommandRequest& request,
      base::Seconds timeout = base::Seconds(10)) const;

 private:
  absl::StatusOr<v1::GetStatusResponse> Ask(bool watching,
                                            base::Seconds timeout) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// RUN_DIR/coordinator.json, which a coordinator keeps while it serves. One that
// was killed leaves it behind: `pid` says whose it is.
struct ServingCoordinator {
  std::string address;
  std::string metrics_address;  // of its HTTP port; empty: not known
  int64_t pid = 0;
};

// NOT_FOUND, with what can be done, when no coordinator serves the run.
absl::StatusOr<ServingCoordinator> ReadCoordinatorFile(
    const std::string& run_dir);
absl::StatusOr<std::string> CoordinatorAddress(const std::string& run_dir);

// What a client shows the coordinator of a run: as its config says ("": no run
// folder is known), and the environment for what that does not say.
absl::StatusOr<rpc::Credentials> ClientCredentials(const std::string& run_dir);

}  // namespace gimbal::cli

// Stores snapshots in another worker's memory and fetches them from there. gRPC
// stays behind this header.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"
#include "worker/checkpoint/stage_snapshot.h"

namespace gimbal::worker {

// Codes as in snapshot_service.proto; UNAVAILABLE when nobody answers,
// DEADLINE_EXCEEDED when it takes much too long, CANCELLED after `stop`.
absl::Status StoreSnapshot(const std::string& address,
                           const rpc::Credentials& credentials,
                           const std::string& run, int64_t generation,
                           int stage, const StageSnapshot& snapshot,
                           std::stop_token stop);
absl::StatusOr<std::shared_ptr<const StageSnapshot>> FetchSnapshot(
    const std::string& address, const rpc::Credentials& credentials,
    const std::string& run, int stage, int64_t update, std::stop_token stop);

}  // namespace gimbal::worker

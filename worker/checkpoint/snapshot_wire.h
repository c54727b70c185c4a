// A snapshot as it travels between two workers: chunks of
// proto/gimbal/v1/snapshot_service.proto.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/sha256.h"
#include "gimbal/v1/snapshot_service.pb.h"
#include "worker/checkpoint/stage_snapshot.h"

namespace gimbal::worker {

inline constexpr int64_t kSnapshotChunkBytes = int64_t{1} << 20;

// Hands the chunks of a snapshot to `write` until that returns false.
void WriteChunks(const std::string& run, int64_t generation, int stage,
                 const StageSnapshot& snapshot,
                 const std::function<bool(const v1::SnapshotChunk&)>& write);

// Puts the chunks together again. Not thread-safe.
class SnapshotAssembler {
 public:
  // DATA_LOSS for a chunk that cannot come next and for a checksum that is not
  // that of what came; RESOURCE_EXHAUSTED when there is no memory for it.
  absl::Status Add(const v1::SnapshotChunk& chunk);
  // Without tensors; null before the first chunk.
  const v1::SnapshotHeader* header() const;
  // DATA_LOSS when the chunks ended too early.
  absl::StatusOr<std::shared_ptr<const StageSnapshot>> Finish();

 private:
  absl::Status Begin(const v1::SnapshotHeader& header);
  absl::Status AddValues(const std::string& values);
  absl::Status Check(const std::string& sha256);

  std::optional<v1::SnapshotHeader> header_;
  std::shared_ptr<StageSnapshot> snapshot_;
  io::Sha256Stream sha256_;
  int64_t received_ = 0;  // bytes of values
  bool whole_ = false;
};

}  // namespace gimbal::worker

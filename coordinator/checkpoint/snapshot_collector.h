// Collects the snapshots of all stages until a checkpoint is whole. Pure; not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/types.pb.h"

namespace gimbal::coordinator {

// All that the workers wrote for one cut.
struct CheckpointContent {
  int64_t update = 0;
  std::vector<v1::CheckpointFile> files;  // by path
  double seconds = 0;  // from the cut to the last byte, of the slowest stage
};

class SnapshotCollector {
 public:
  explicit SnapshotCollector(int stages) : stages_(stages) {}

  // Forgets what is not whole yet (the stages start again from an older cut).
  void Restart() {
    open_.clear();
    whole_.clear();
  }

  // A stage that is replayed writes again what it wrote: the second time is
  // ignored.
  //
  // The checkpoint, once the snapshot is the last one of it; nothing before.
  // DATA_LOSS when a stage could not write its part: the checkpoint is given
  // up, and its other parts are ignored. INTERNAL for an unknown stage or two
  // different files of one name.
  absl::StatusOr<std::optional<CheckpointContent>> Add(
      const v1::SnapshotWritten& snapshot);

  // Whether the stage has written its part, or failed to.
  bool Has(int stage, int64_t update) const;

 private:
  struct Open {
    std::vector<bool> written;  // by stage
    bool given_up = false;
    std::map<std::string, v1::CheckpointFile> files;
    double seconds = 0;
  };

  const int stages_;
  std::map<int64_t, Open> open_;  // by update
  std::set<int64_t> whole_;       // updates
};

}  // namespace gimbal::coordinator

// Where the files of checkpoints go to and come from: a folder that all nodes
// share, or the coordinator (coordinator_store.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/safetensors.h"

namespace gimbal::worker {

// Thread-safe; at most one thread at a time writes a file.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Writes a file of the checkpoint of `update`, named as in
  // common/io/checkpoint_layout.h: it is whole or not there. ABORTED when the
  // worker does not count any more: its stages are somebody else's.
  virtual absl::StatusOr<io::WrittenFile> Write(
      int64_t update, const std::string& file,
      std::span<const io::TensorView> tensors) = 0;
  // Opens a file of a committed checkpoint; NOT_FOUND when it is not there.
  virtual absl::StatusOr<io::SafetensorsFile> Open(int64_t update,
                                                   const std::string& file) = 0;
};

// "__metadata__" of every file of a checkpoint.
std::map<std::string, std::string> MetadataOf(int64_t update);

class SharedFolder final : public CheckpointStore {
 public:
  // `root`: the folder of all checkpoints. `may_write` is asked before each
  // file counts, and may wait.
  explicit SharedFolder(std::string root,
                        std::function<absl::Status()> may_write = {})
      : root_(std::move(root)), may_write_(std::move(may_write)) {}

  absl::StatusOr<io::WrittenFile> Write(
      int64_t update, const std::string& file,
      std::span<const io::TensorView> tensors) override;
  absl::StatusOr<io::SafetensorsFile> Open(int64_t update,
                                           const std::string& file) override;

 private:
  std::string PathOf(int64_t update, const std::string& file) const;

  const std::string root_;
  const std::function<absl::Status()> may_write_;
};

}  // namespace gimbal::worker

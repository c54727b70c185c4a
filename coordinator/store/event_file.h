// RUN_DIR/events.jsonl: every decision with its time and reason, one object per
// line (deploy/operations.md has the keys), written at once, and only after the
// store has it: the file may lack decisions of the store, never the other way
// round. A line that cannot be written is logged and leaves no part of itself.
// Not thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/unique_fd.h"
#include "coordinator/store/run_store.h"

namespace gimbal::coordinator {

class EventFile {
 public:
  // Cuts off the beginning of a line whose writer was killed.
  static absl::StatusOr<EventFile> Open(const std::string& path);
  void Append(const StoredDecision& decision);
  // Unless the file has it: of a decision that only the store took before its
  // process was killed.
  absl::Status AppendMissing(const StoredDecision& decision);

 private:
  EventFile(std::string path, io::UniqueFd fd, size_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  io::UniqueFd fd_;
  size_t size_;  // of the whole lines
};

// DATA_LOSS when the store lacks the newest decision of RUN_DIR/events.jsonl:
// SQLite takes a write-ahead log to end where a bit of it was flipped, without
// a word, and whoever resumed would go on with other numbers.
absl::Status CheckNothingForgotten(const std::string& run_dir, RunStore& store);

}  // namespace gimbal::coordinator

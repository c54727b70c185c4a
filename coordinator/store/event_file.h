// RUN_DIR/events.jsonl: every decision with its time and reason, one object per
// line (deploy/operations.md has the keys), written at once. A line that cannot
// be written is logged: the store holds the same. Not thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/unique_fd.h"
#include "coordinator/store/run_store.h"

namespace gimbal::coordinator {

class EventFile {
 public:
  static absl::StatusOr<EventFile> Open(const std::string& path);
  void Append(const StoredDecision& decision);
  // Unless the file has it: of a decision that only the store took before its
  // process was killed.
  absl::Status AppendMissing(const StoredDecision& decision);

 private:
  EventFile(std::string path, io::UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  io::UniqueFd fd_;
};

}  // namespace gimbal::coordinator

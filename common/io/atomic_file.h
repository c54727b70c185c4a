// A file that appears whole or not at all: it is written as PATH.tmp, synced
// and renamed by Commit; without a Commit the destructor removes it.
// Not thread-safe. The newest writer of a path is the one that counts: an older
// one, which was stopped for long, neither touches its file nor commits.
//
// A link is followed, its file replaced. What is no file, such as a pipe or
// /dev/null, is written to at once and stays what it is.
//
//   GIMBAL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
//   GIMBAL_RETURN_IF_ERROR(file.Append(data, bytes));
//   GIMBAL_RETURN_IF_ERROR(file.Commit());
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/unique_fd.h"

namespace gimbal::io {

class AtomicFile {
 public:
  // Makes the parent folder. Errors name the path and the system's reason.
  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  absl::Status Append(const void* data, size_t bytes);
  absl::Status Append(std::string_view text) {
    return Append(text.data(), text.size());
  }
  // ABORTED when somebody else has begun to write the same path since.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, UniqueFd fd, bool in_place);
  absl::Status Error(std::string_view action) const;
  bool IsOurs() const;  // what has the temporary name
  std::string TemporaryPath() const { return path_ + ".tmp"; }

  std::string path_;
  UniqueFd fd_;  // invalid once committed or moved from
  bool in_place_;
};

}  // namespace gimbal::io

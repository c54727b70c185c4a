// Copies of files that are on the disk when the call returns. Errors name the
// paths and the system's reason.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace gimbal::io {

// Makes the parent folder; `to` must not exist.
absl::Status CopyFile(const std::string& from, const std::string& to);

// A second name of the same file where the file system can do that, else a
// copy. For files that are replaced but never written to.
absl::Status LinkOrCopyFile(const std::string& from, const std::string& to);

// What was written to the file, or the folder's list of names, is on the disk.
absl::Status SyncPath(const std::string& path);

}  // namespace gimbal::io

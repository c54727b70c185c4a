// Whole-file helpers whose errors name the path and the system's reason.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::io {

absl::StatusOr<std::string> ReadFile(const std::string& path);
// Write to PATH.tmp, fsync, rename, fsync the folder: whole or not there.
absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view content);
absl::Status MakeFolders(const std::string& path);
// OK when a file can be created in the folder (made when missing).
absl::Status CheckWritable(const std::string& folder);
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);
std::string Sha256(std::string_view content);

}  // namespace gimbal::io

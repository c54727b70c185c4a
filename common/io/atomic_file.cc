#include "common/io/atomic_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::io {
namespace {

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  GIMBAL_RETURN_IF_ERROR(MakeFolders(ParentOf(path)));
  UniqueFd fd(open((path + ".tmp").c_str(),
                   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  }
  return AtomicFile(path, std::move(fd));
}

AtomicFile::AtomicFile(std::string path, UniqueFd fd)
    : path_(std::move(path)), fd_(std::move(fd)) {}

AtomicFile::~AtomicFile() {
  if (fd_.valid()) std::remove(TemporaryPath().c_str());
}

absl::Status AtomicFile::Append(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd_.get(), next, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      return Error("write");
    }
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(fd_.get()) != 0) return Error("sync");
  if (std::rename(TemporaryPath().c_str(), path_.c_str()) != 0) {
    return Error("rename the finished file to");
  }
  if (!fd_.Close()) return Error("close");
  // The rename itself lasts once the folder is synced.
  const UniqueFd folder(
      open(ParentOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || fsync(folder.get()) != 0) {
    return Error("sync the folder of");
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Error(std::string_view action) const {
  const int reason = errno;
  return absl::ErrnoToStatus(
      reason,
      absl::StrCat("cannot ", absl::string_view(action.data(), action.size()),
                   " ", path_));
}

}  // namespace gimbal::io

#include "common/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>

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

// A file of its own: an earlier writer that was stopped or cut off, and wakes
// up, goes on with one that has no name any more. What is no file, such as a
// pipe, is written to as it is.
UniqueFd OpenTemporary(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CLOEXEC;
  struct stat there = {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) return UniqueFd(open(path.c_str(), kFlags));
    std::remove(path.c_str());
  }
  return UniqueFd(open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
}

// A rename would put a file in its place.
bool IsToBeKept(const std::string& path) {
  struct stat there = {};
  return stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) &&
         !S_ISDIR(there.st_mode);
}

// Where the links lead, if the path is one; itself when they lead nowhere.
std::string FollowLinks(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  GIMBAL_RETURN_IF_ERROR(MakeFolders(ParentOf(path)));
  const bool in_place = IsToBeKept(path);
  const std::string target = FollowLinks(path);
  UniqueFd fd = in_place ? UniqueFd(open(path.c_str(), O_WRONLY | O_CLOEXEC))
                         : OpenTemporary(target + ".tmp");
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  }
  return AtomicFile(target, std::move(fd), in_place);
}

AtomicFile::AtomicFile(std::string path, UniqueFd fd, bool in_place)
    : path_(std::move(path)), fd_(std::move(fd)), in_place_(in_place) {}

AtomicFile::~AtomicFile() {
  if (fd_.valid() && !in_place_ && IsOurs())
    std::remove(TemporaryPath().c_str());
}

bool AtomicFile::IsOurs() const {
  struct stat named = {}, ours = {};
  return stat(TemporaryPath().c_str(), &named) == 0 &&
         fstat(fd_.get(), &ours) == 0 && named.st_dev == ours.st_dev &&
         named.st_ino == ours.st_ino;
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
  if (in_place_) return fd_.Close() ? absl::OkStatus() : Error("close");
  if (fsync(fd_.get()) != 0) return Error("sync");
  if (!IsOurs()) {
    return absl::AbortedError(
        absl::StrCat("another writer has taken ", path_, " over"));
  }
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

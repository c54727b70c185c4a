#include "common/io/copy_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "common/io/unique_fd.h"

namespace gimbal::io {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::Status SyncPath(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid() && fsync(fd.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path));
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  const std::string folder = fs::path(to).parent_path();
  GIMBAL_RETURN_IF_ERROR(MakeFolders(folder));
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot copy ", from, " to ", to));
  }
  GIMBAL_RETURN_IF_ERROR(SyncPath(to));
  return SyncPath(folder);
}

absl::Status LinkOrCopyFile(const std::string& from, const std::string& to) {
  const std::string folder = fs::path(to).parent_path();
  GIMBAL_RETURN_IF_ERROR(MakeFolders(folder));
  std::error_code error;
  fs::create_hard_link(from, to, error);
  return error ? CopyFile(from, to) : SyncPath(folder);
}

}  // namespace gimbal::io

#include "common/io/draft_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/copy_file.h"
#include "common/io/file.h"

namespace gimbal::io {
namespace {

namespace fs = std::filesystem;

// Without a slash at the end.
std::string Normal(const std::string& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

absl::StatusOr<DraftFolder> DraftFolder::Make(const std::string& path) {
  const std::string target = Normal(path);
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": is there already"));
  }
  GIMBAL_RETURN_IF_ERROR(MakeFolders(fs::path(target).parent_path()));
  const std::string draft = absl::StrCat(target, ".draft-", getpid());
  const bool made = fs::create_directory(draft, error);
  if (!made && !error) error = std::make_error_code(std::errc::file_exists);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot make ", draft));
  }
  return DraftFolder(target, draft);
}

DraftFolder::DraftFolder(std::string path, std::string draft)
    : path_(std::move(path)), draft_(std::move(draft)) {}

DraftFolder::DraftFolder(DraftFolder&& other) noexcept
    : path_(std::move(other.path_)), draft_(std::exchange(other.draft_, "")) {}

DraftFolder::~DraftFolder() {
  std::error_code ignored;
  if (!draft_.empty()) fs::remove_all(draft_, ignored);
}

absl::Status DraftFolder::Commit() {
  GIMBAL_RETURN_IF_ERROR(SyncPath(draft_));
  std::error_code error;
  fs::rename(draft_, path_, error);
  if (error) {
    return absl::ErrnoToStatus(
        error.value(), absl::StrCat("cannot rename ", draft_, " to ", path_));
  }
  draft_.clear();
  return SyncPath(fs::path(path_).parent_path());
}

}  // namespace gimbal::io

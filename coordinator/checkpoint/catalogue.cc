#include "coordinator/checkpoint/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/file.h"

namespace gimbal::coordinator {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& root, int64_t update) {
  return absl::StrCat(root, "/", io::StepFolderName(update));
}

bool IsCommitted(const std::string& folder) {
  std::error_code error;
  return fs::exists(absl::StrCat(folder, "/", io::kCommitFile), error);
}

// Updates of the step folders below `root`, ascending.
std::vector<int64_t> StepFolders(const std::string& root) {
  std::vector<int64_t> updates;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    const auto update = io::ParseStepFolderName(it->path().filename().string());
    if (update.has_value()) updates.push_back(*update);
  }
  std::sort(updates.begin(), updates.end());
  return updates;
}

// COMMIT goes first: a folder that is half removed must not count.
absl::Status RemoveFolder(const std::string& folder) {
  std::error_code error;
  fs::remove(absl::StrCat(folder, "/", io::kCommitFile), error);
  if (!error) fs::remove_all(folder, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot remove ", folder));
}

void RemoveOrWarn(const std::string& folder) {
  const absl::Status removed = RemoveFolder(folder);
  if (!removed.ok()) base::LogWarning(removed.ToString());
}

}  // namespace

std::vector<int64_t> CommittedCheckpoints(const std::string& root) {
  std::vector<int64_t> updates = StepFolders(root);
  std::erase_if(updates, [&](int64_t update) {
    return !IsCommitted(FolderOf(root, update));
  });
  return updates;
}

NewestGood FindNewestGood(const std::string& root) {
  NewestGood result;
  std::vector<int64_t> updates = CommittedCheckpoints(root);
  std::reverse(updates.begin(), updates.end());
  for (int64_t update : updates) {
    const absl::Status verified = VerifyCheckpoint(FolderOf(root, update));
    if (verified.ok()) {
      result.update = update;
      break;
    }
    result.passed_over.push_back(verified);
  }
  return result;
}

std::string Catalogue::Folder(int64_t update) const {
  return FolderOf(root_, update);
}

absl::Status Catalogue::RemoveLeftovers() const {
  for (int64_t update : StepFolders(root_)) {
    if (IsCommitted(Folder(update))) continue;
    base::LogInfo(absl::StrCat("removes the unfinished ", Folder(update)));
    GIMBAL_RETURN_IF_ERROR(RemoveFolder(Folder(update)));
  }
  return absl::OkStatus();
}

absl::Status Catalogue::Commit(const Manifest& manifest) const {
  const std::string folder = Folder(manifest.update);
  // The writers hashed what they meant to write; that as much arrived is cheap
  // to see.
  GIMBAL_RETURN_IF_ERROR(VerifySizes(folder, manifest));
  GIMBAL_RETURN_IF_ERROR(io::WriteFileAtomically(
      absl::StrCat(folder, "/", io::kManifestFile), ToJson(manifest)));
  GIMBAL_RETURN_IF_ERROR(
      io::WriteFileAtomically(absl::StrCat(folder, "/", io::kCommitFile),
                              absl::StrCat(manifest.update, "\n")));
  GIMBAL_RETURN_IF_ERROR(SetLatest(manifest.update));
  Prune(manifest.update);
  return absl::OkStatus();
}

absl::Status Catalogue::SetLatest(int64_t update) const {
  const std::string path = absl::StrCat(root_, "/", io::kLatestFile);
  if (update > 0) {
    return io::WriteFileAtomically(
        path, absl::StrCat(io::StepFolderName(update), "\n"));
  }
  std::error_code error;
  fs::remove(path, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot remove ", path));
}

void Catalogue::Discard(int64_t update) const { RemoveOrWarn(Folder(update)); }

// A committed folder beyond the newest is one that was found damaged: the run
// started again below it and will write it anew.
void Catalogue::Prune(int64_t newest) const {
  std::vector<int64_t> updates = CommittedCheckpoints(root_);
  std::reverse(updates.begin(), updates.end());
  int kept = 0;
  for (int64_t update : updates) {
    if (update > newest || ++kept > keep_) RemoveOrWarn(Folder(update));
  }
}

}  // namespace gimbal::coordinator

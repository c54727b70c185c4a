#include "coordinator/checkpoint/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
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

// Empty when there is no manifest that can be read.
std::string RunOf(const std::string& folder) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  return manifest.ok() ? manifest->run_id : "";
}

// A committed folder without a readable manifest counts as one's own: it is
// damaged, and only its owner looks at it.
bool IsOfAnotherRun(const std::string& folder, const std::string& run_id) {
  if (run_id.empty() || !IsCommitted(folder)) return false;
  const std::string owner = RunOf(folder);
  return !owner.empty() && owner != run_id;
}

std::string OwnerPath(const std::string& root) {
  return absl::StrCat(root, "/", io::kOwnerFile);
}

// Empty when nobody owns the folder.
absl::StatusOr<std::string> OwnerOf(const std::string& root) {
  absl::StatusOr<std::string> owner = io::ReadFile(OwnerPath(root));
  if (absl::IsNotFound(owner.status())) return "";
  if (owner.ok()) absl::StripTrailingAsciiWhitespace(&*owner);
  return owner;
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

std::string CheckpointRoot(const std::string& run_dir,
                           const v1::RunConfig& config) {
  return config.checkpoint().dir().empty() ? run_dir + "/checkpoints"
                                           : config.checkpoint().dir();
}

std::vector<int64_t> CommittedCheckpoints(const std::string& root) {
  std::vector<int64_t> updates = StepFolders(root);
  std::erase_if(updates, [&](int64_t update) {
    return !IsCommitted(FolderOf(root, update));
  });
  return updates;
}

NewestGood FindNewestGood(const std::string& root, const std::string& run_id) {
  NewestGood result;
  std::vector<int64_t> updates = CommittedCheckpoints(root);
  std::reverse(updates.begin(), updates.end());
  for (int64_t update : updates) {
    if (IsOfAnotherRun(FolderOf(root, update), run_id)) continue;
    const absl::Status verified = VerifyCheckpoint(FolderOf(root, update));
    if (verified.ok()) {
      result.update = update;
      break;
    }
    result.passed_over.push_back(verified);
  }
  return result;
}

absl::Status CheckUnused(const std::string& root) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string owner, OwnerOf(root));
  const std::vector<int64_t> steps = StepFolders(root);
  if (owner.empty() && steps.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      root, ": holds checkpoints of another run (",
      owner.empty() ? io::StepFolderName(steps.back()) : owner,
      "); choose another checkpoint.dir, or go on with that run with "
      "--resume"));
}

std::string Catalogue::Folder(int64_t update) const {
  return FolderOf(root_, update);
}

absl::Status Catalogue::Claim() const {
  GIMBAL_ASSIGN_OR_RETURN(std::string owner, OwnerOf(root_));
  for (int64_t update : CommittedCheckpoints(root_)) {
    if (IsOfAnotherRun(Folder(update), run_id_)) owner = RunOf(Folder(update));
  }
  if (owner == run_id_) return absl::OkStatus();
  if (!owner.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        root_, ": holds checkpoints of run ", owner, ", expected those of ",
        run_id_, "; set checkpoint.dir to the folder of this run"));
  }
  return io::WriteFileAtomically(OwnerPath(root_), run_id_ + "\n");
}

absl::Status Catalogue::RemoveLeftovers() const {
  for (int64_t update : StepFolders(root_)) {
    if (IsCommitted(Folder(update))) continue;
    base::LogInfo(absl::StrCat("removes the unfinished ", Folder(update)));
    GIMBAL_RETURN_IF_ERROR(RemoveFolder(Folder(update)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Catalogue::RemoveAfter(int64_t last) const {
  bool some_left = false;
  for (int64_t update : CommittedCheckpoints(root_)) {
    if (IsOfAnotherRun(Folder(update), run_id_)) continue;
    if (update > last) {
      GIMBAL_RETURN_IF_ERROR(RemoveFolder(Folder(update)));
    } else {
      some_left = true;
    }
  }
  return some_left;
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
  // From here on the checkpoint counts, whatever fails.
  if (const absl::Status named = SetLatest(manifest.update); !named.ok()) {
    base::LogWarning(named.ToString());
  }
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

// A committed folder beyond the newest is one that was found damaged: the run
// started again below it and will write it anew. An unfinished one below the
// newest was given up: every stage writes its snapshots in order. One beyond
// the newest is being written.
void Catalogue::Prune(int64_t newest) const {
  std::vector<int64_t> updates = StepFolders(root_);
  std::reverse(updates.begin(), updates.end());
  int kept = 0;
  for (int64_t update : updates) {
    const std::string folder = Folder(update);
    if (IsOfAnotherRun(folder, run_id_)) continue;
    const bool goes = IsCommitted(folder) ? update > newest || ++kept > keep_
                                          : update < newest;
    if (goes && !(update == origin_ && IsCommitted(folder))) {
      RemoveOrWarn(folder);
    }
  }
}

}  // namespace gimbal::coordinator

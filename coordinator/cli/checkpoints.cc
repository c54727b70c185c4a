#include "coordinator/cli/checkpoints.h"

#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/checkpoint_layout.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/checkpoint/manifest.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

// Folders of the committed checkpoints, oldest first; at least one.
absl::StatusOr<std::vector<std::string>> Folders(const std::string& run_dir) {
  std::error_code error;
  if (!std::filesystem::exists(run_dir + "/config.yaml", error)) {
    return absl::NotFoundError(
        absl::StrCat(run_dir, ": not a run folder (no config.yaml)"));
  }
  GIMBAL_ASSIGN_OR_RETURN(const v1::RunConfig config,
                          config::LoadRunConfig(run_dir + "/config.yaml", {}));
  const std::string root = coordinator::CheckpointRoot(run_dir, config);
  std::vector<std::string> folders;
  for (const int64_t update : coordinator::CommittedCheckpoints(root)) {
    folders.push_back(absl::StrCat(root, "/", io::StepFolderName(update)));
  }
  if (folders.empty()) {
    return absl::NotFoundError(
        absl::StrCat(root, ": no committed checkpoint yet"));
  }
  return folders;
}

absl::Status List(const std::string& run_dir) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                          Folders(run_dir));
  TextTable table({"update", "files", "size", "folder"});
  for (const std::string& folder : folders) {
    GIMBAL_ASSIGN_OR_RETURN(const coordinator::Manifest manifest,
                            coordinator::ReadManifest(folder));
    int64_t bytes = 0;
    for (const v1::CheckpointFile& file : manifest.files) {
      bytes += file.bytes();
    }
    table.AddRow({absl::StrCat(manifest.update),
                  absl::StrCat(manifest.files.size()), FormatBytes(bytes),
                  folder});
  }
  std::printf("%s", table.ToString().c_str());
  return absl::OkStatus();
}

absl::Status Verify(const std::string& run_dir) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                          Folders(run_dir));
  int bad = 0;
  for (const std::string& folder : folders) {
    const absl::Status status = coordinator::VerifyCheckpoint(folder);
    std::printf(
        "%s  %s\n", status.ok() ? "good" : "BAD ",
        status.ok() ? folder.c_str() : std::string(status.message()).c_str());
    if (!status.ok()) ++bad;
  }
  if (bad == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(bad, " of ", folders.size(),
                   " checkpoints are damaged; --resume passes them over"));
}

}  // namespace

int RunCheckpointList(const std::string& run_dir) {
  const absl::Status status = List(run_dir);
  return status.ok() ? kDone : Fail(status);
}

int RunCheckpointVerify(const std::string& run_dir) {
  const absl::Status status = Verify(run_dir);
  return status.ok() ? kDone : Fail(status);
}

int RunCheckpointReshard(const coordinator::ReshardOptions& options) {
  const auto made = coordinator::Reshard(options);
  if (!made.ok()) return Fail(made.status());
  std::printf("%s: %s, from the checkpoint of update %lld\n",
              options.out.c_str(), made->decision.c_str(),
              static_cast<long long>(made->update));
  const std::string out = ShellWord(options.out);
  if (made->finished) {
    std::printf(
        "that was the run's last update: nothing is left to train\n"
        "next:\n  gimbal eval %s\n",
        out.c_str());
  } else {
    std::printf("next:\n  gimbal train --run-dir %s --resume\n", out.c_str());
  }
  return kDone;
}

}  // namespace gimbal::cli

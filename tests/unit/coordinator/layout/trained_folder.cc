#include "tests/unit/coordinator/layout/trained_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "common/config/run_config_io.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/file.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/planner/placement.h"
#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;

Manifest WriteFiles(const RunFolder& folder, const Catalogue& catalogue,
                    int64_t update) {
  Manifest manifest{.run_id = folder.identity.run_id,
                    .config_digest = folder.identity.config_digest,
                    .update = update,
                    .layers = 4,
                    .stages = *PlanStages(folder.config)};
  for (const std::string& path : {io::InFlightFile(0), io::LayerFile(0),
                                  io::OptimizerFile(0), io::StashFile(0)}) {
    const std::string content = path + " of " + std::to_string(update);
    EXPECT_THAT(
        io::WriteFileAtomically(catalogue.Folder(update) + "/" + path, content),
        IsOk());
    v1::CheckpointFile& file = manifest.files.emplace_back();
    file.set_path(path);
    file.set_bytes(static_cast<int64_t>(content.size()));
    file.set_sha256(io::Sha256(content));
  }
  return manifest;
}

}  // namespace

v1::RunConfig TrainedConfig(int stages,
                            const std::vector<std::string>& overrides) {
  const auto config = config::ParseRunConfig(
      "run: {name: demo, steps: 100}\n"
      "data: {train: t}\n"
      "model: {layers: 4, hidden: 8, heads: 2, context: 8}\n"
      "pipeline: {stages: " +
          std::to_string(stages) + "}\n",
      "c.yaml", overrides);
  EXPECT_THAT(config, IsOk());
  return *config;
}

std::string MakeTrainedFolder(const std::string& run_dir,
                              const std::vector<int64_t>& checkpoints) {
  auto folder = RunFolder::Take(run_dir, TrainedConfig(4), kTrainedData, false);
  EXPECT_THAT(folder, IsOk());
  for (int64_t step = 1; step <= 25; ++step) {
    folder->metrics.Append({.step = step, .staleness = {3, 2, 1, 0}});
  }
  EXPECT_THAT(folder->metrics.Sync(), IsOk());
  const Catalogue catalogue(run_dir + "/checkpoints", folder->identity.run_id,
                            5);
  EXPECT_THAT(catalogue.Claim(), IsOk());
  for (const int64_t update : checkpoints) {
    EXPECT_THAT(catalogue.Commit(WriteFiles(*folder, catalogue, update)),
                IsOk());
    EXPECT_THAT(folder->store->AddCheckpoint(update, 1), IsOk());
  }
  RunStore& store = *folder->store;
  EXPECT_THAT(store.AddDecision({1, kNumerics, "some machine"}), IsOk());
  EXPECT_THAT(store.AddRefreshChange({.from = 9,
                                      .policy = v1::REFRESH_POLICY_UNIFORM,
                                      .period = 7,
                                      .periods = {7, 7, 7, 7},
                                      .asked = true}),
              IsOk());
  return folder->identity.run_id;
}

void Damage(const std::string& run_dir, int64_t update) {
  const std::string path = run_dir + "/checkpoints/" +
                           io::StepFolderName(update) + "/" + io::LayerFile(0);
  std::string content = *io::ReadFile(path);
  content[0] ^= 1;
  EXPECT_THAT(io::WriteFileAtomically(path, content), IsOk());
}

std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files.push_back(entry.path().lexically_relative(folder));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace gimbal::coordinator

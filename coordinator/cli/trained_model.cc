#include "coordinator/cli/trained_model.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/checkpoint_layout.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/cli/format.h"
#include "worker/checkpoint/load_model.h"
#include "worker/compute/runtime.h"
#include "worker/pipeline/specs.h"

namespace gimbal::cli {

TrainedModel::TrainedModel(v1::RunConfig config, int64_t update)
    : config_(std::move(config)),
      update_(update),
      stage_(worker::WholeModelOf(config_, /*microbatch=*/1)),
      slot_(stage_.NewSlot()),
      weights_(stage_.table().size()) {}

absl::StatusOr<std::unique_ptr<TrainedModel>> TrainedModel::Load(
    const std::string& run_dir) {
  std::error_code error;
  if (!std::filesystem::exists(run_dir + "/config.yaml", error)) {
    return absl::NotFoundError(absl::StrCat(
        run_dir,
        ": not a run folder (no config.yaml); give the folder that "
        "`gimbal train` made"));
  }
  GIMBAL_ASSIGN_OR_RETURN(v1::RunConfig config,
                          config::LoadRunConfig(run_dir + "/config.yaml", {}));
  const std::string root = coordinator::CheckpointRoot(run_dir, config);
  const coordinator::NewestGood newest = coordinator::FindNewestGood(root);
  for (const absl::Status& bad : newest.passed_over) {
    std::fprintf(stderr, "gimbal: passed over a checkpoint: %s\n",
                 std::string(bad.message()).c_str());
  }
  if (newest.update == 0) {
    return absl::NotFoundError(
        absl::StrCat(root,
                     ": no good checkpoint yet; one is written every "
                     "checkpoint.every updates and at the end, or by `gimbal "
                     "checkpoint --run-dir ",
                     ShellWord(run_dir), "`"));
  }
  compute::SetThreads(config.cluster().threads());
  compute::PrepareComputeThread();
  std::unique_ptr<TrainedModel> model(
      new TrainedModel(std::move(config), newest.update));
  GIMBAL_RETURN_IF_ERROR(worker::LoadWeights(
      absl::StrCat(root, "/", io::StepFolderName(newest.update)),
      model->stage_.table(), model->weights_.data()));
  return model;
}

void TrainedModel::Forward(std::span<const int32_t> tokens,
                           std::span<const int32_t> targets) {
  stage_.Forward(weights_.data(), {.tokens = tokens, .targets = targets},
                 slot_.get());
}

std::span<const float> TrainedModel::logits(int position) const {
  const auto vocab = static_cast<size_t>(config_.model().vocab());
  return {stage_.logits(*slot_) + static_cast<size_t>(position) * vocab, vocab};
}

}  // namespace gimbal::cli

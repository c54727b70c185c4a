#include "coordinator/layout/go_over.h"

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/layout/layout_change.h"
#include "coordinator/layout/void_updates.h"
#include "coordinator/planner/placement.h"
#include "coordinator/store/metrics_file.h"

namespace gimbal::coordinator {
namespace {

// What whoever resumes the run would drop first.
absl::Status DropVoid(const Catalogue& catalogue, RunStore& store) {
  GIMBAL_ASSIGN_OR_RETURN(const int64_t last, LastUpdateNotVoid(store));
  if (last == std::numeric_limits<int64_t>::max()) return absl::OkStatus();
  GIMBAL_ASSIGN_OR_RETURN(const bool some_left, catalogue.RemoveAfter(last));
  // Older ones may have been pruned: then the run begins again.
  return store.ForgetCheckpointsAfter(some_left ? last : 0);
}

// The newest good checkpoint, with all rows up to it.
absl::StatusOr<int64_t> CutOf(const std::string& run_dir,
                              const Catalogue& catalogue,
                              const std::string& run_id, RunStore& store) {
  const std::string& root = catalogue.root();
  GIMBAL_RETURN_IF_ERROR(DropVoid(catalogue, store));
  const NewestGood newest = FindNewestGood(root, run_id);
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<int64_t> committed,
                          store.Checkpoints());
  if (newest.update == 0 && !committed.empty()) {
    return absl::DataLossError(absl::StrCat(
        root, ": no good checkpoint to go over to other stages from, but that ",
        "of update ", committed.back(),
        " was committed; is the folder mounted, was it moved "
        "(checkpoint.dir)?"));
  }
  GIMBAL_ASSIGN_OR_RETURN(MetricsFile metrics,
                          MetricsFile::Open(run_dir + "/metrics.jsonl"));
  GIMBAL_RETURN_IF_ERROR(metrics.Keep(newest.update).status());
  return newest.update;
}

}  // namespace

absl::StatusOr<v1::RunConfig> GoOver(const std::string& run_dir,
                                     const RunIdentity& identity,
                                     const v1::RunConfig& wanted,
                                     const v1::RunConfig& held,
                                     RunStore& store) {
  const Catalogue catalogue(CheckpointRoot(run_dir, wanted), identity.run_id,
                            wanted.checkpoint().keep());
  GIMBAL_ASSIGN_OR_RETURN(const int64_t cut,
                          CutOf(run_dir, catalogue, identity.run_id, store));
  v1::RunConfig config = wanted;
  config.mutable_pipeline()->set_origin(cut);
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> stages,
                          PlanStages(config));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> before,
                          PlanStages(held));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<RefreshChange> refreshes,
                          store.RefreshChanges());
  const GoingOver words = Describe(cut, stages, before);
  // Found damaged just now, and of the former stages: were they to come back to
  // life, the run would take them for its own.
  GIMBAL_RETURN_IF_ERROR(catalogue.RemoveAfter(cut).status());
  GIMBAL_RETURN_IF_ERROR(store.ForgetCheckpointsAfter(cut));
  const std::string yaml = config::ToYaml(config);
  GIMBAL_RETURN_IF_ERROR(
      io::WriteFileAtomically(run_dir + "/config.yaml", yaml));
  GIMBAL_RETURN_IF_ERROR(store.ChangeLayout(
      {.config_digest = config::ConfigDigest(config),
       .config_yaml = yaml,
       .refresh_changes = ReplanRefreshes(config, stages, refreshes),
       .decision = {
           .unix_seconds = base::Clock::Real().UnixSeconds(),
           .what = words.what,
           .reason = absl::StrCat("asked for at --resume; ", words.blocks),
           .update = cut + 1}}));
  return config;
}

}  // namespace gimbal::coordinator

#include "coordinator/layout/reshard.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/copy_file.h"
#include "common/io/draft_folder.h"
#include "common/io/file.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/layout/layout_change.h"
#include "coordinator/layout/void_updates.h"
#include "coordinator/planner/placement.h"
#include "coordinator/run/run_controller.h"
#include "coordinator/store/run_folder.h"
#include "coordinator/store/sqlite_run_store.h"

namespace gimbal::coordinator {
namespace {

namespace fs = std::filesystem;

// The run that is left as it is.
struct Source {
  RunLock lock;
  std::unique_ptr<RunStore> store;
  RunIdentity identity;
  std::string root;  // of its checkpoints
};

// A copy of the run may be made of its folder, which must hold one run.
absl::Status CheckOutside(const std::string& out, const std::string& run_dir) {
  std::error_code error;
  const fs::path run = fs::weakly_canonical(run_dir, error);
  const fs::path made = fs::weakly_canonical(out, error);
  const auto [end, ignored] =
      std::mismatch(run.begin(), run.end(), made.begin(), made.end());
  if (end != run.end() || run == made) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", out, ": lies inside ", run_dir,
                   ", which is a run's own; choose a folder beside it"));
}

absl::StatusOr<Source> OpenSource(const std::string& run_dir) {
  std::error_code error;
  for (const char* file : {"/config.yaml", "/coordinator.db"}) {
    if (fs::exists(run_dir + file, error)) continue;
    return absl::NotFoundError(
        absl::StrCat(run_dir, ": not a run folder (no ", file + 1, ")"));
  }
  GIMBAL_ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(run_dir));
  const std::string path = run_dir + "/coordinator.db";
  GIMBAL_ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store,
                          OpenSqliteRunStore(path));
  GIMBAL_ASSIGN_OR_RETURN(std::optional<RunIdentity> identity,
                          store->Identity());
  if (!identity.has_value()) {
    return absl::NotFoundError(absl::StrCat(path, ": holds no run yet"));
  }
  GIMBAL_RETURN_IF_ERROR(CheckNothingForgotten(run_dir, *store));
  GIMBAL_ASSIGN_OR_RETURN(const v1::RunConfig config,
                          config::LoadRunConfig(run_dir + "/config.yaml", {}));
  return Source{std::move(lock), std::move(store), *std::move(identity),
                CheckpointRoot(run_dir, config)};
}

absl::StatusOr<Manifest> GoodCheckpoint(const Source& source, int64_t update) {
  const std::string folder =
      absl::StrCat(source.root, "/", io::StepFolderName(update));
  GIMBAL_RETURN_IF_ERROR(VerifyCheckpoint(folder));
  GIMBAL_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
  if (manifest.run_id == source.identity.run_id) return manifest;
  return absl::FailedPreconditionError(
      absl::StrCat(folder, ": belongs to run ", manifest.run_id,
                   ", expected one of run ", source.identity.run_id));
}

// The one of the update, or the newest good one for 0.
absl::StatusOr<Manifest> FindCheckpoint(const Source& source, int64_t update) {
  std::vector<int64_t> there = CommittedCheckpoints(source.root);
  GIMBAL_ASSIGN_OR_RETURN(const int64_t last, LastUpdateNotVoid(*source.store));
  std::erase_if(there, [&](int64_t other) { return other > last; });
  const bool any = update == 0 && !there.empty();
  if (!any && std::ranges::find(there, update) == there.end()) {
    return absl::NotFoundError(
        absl::StrCat(source.root, ": no committed checkpoint",
                     update > 0 ? absl::StrCat(" of update ", update) : "",
                     " to go on from; there are those of updates [",
                     absl::StrJoin(there, ", "), "]"));
  }
  if (!any) return GoodCheckpoint(source, update);
  const absl::StatusOr<Manifest> newest = GoodCheckpoint(source, there.back());
  if (newest.ok()) return newest;
  for (there.pop_back(); !there.empty(); there.pop_back()) {
    absl::StatusOr<Manifest> older = GoodCheckpoint(source, there.back());
    if (older.ok()) return older;
  }
  return newest;
}

absl::StatusOr<v1::RunConfig> NewConfig(const ReshardOptions& options,
                                        int64_t origin) {
  const std::string split =
      options.split.empty()
          ? "auto"
          : absl::StrCat("[", absl::StrJoin(options.split, ","), "]");
  auto config = config::LoadRunConfig(
      options.run_dir + "/config.yaml",
      std::vector<std::string>{absl::StrCat("pipeline.stages=", options.stages),
                               absl::StrCat("pipeline.split=", split),
                               absl::StrCat("pipeline.origin=", origin)});
  if (!config.ok()) {
    return absl::Status(
        config.status().code(),
        absl::StrReplaceAll(config.status().message(),
                            {{"--set pipeline.stages=", "--stages "},
                             {"--set pipeline.split=", "--split "}}));
  }
  // The former run's is that run's alone.
  config->mutable_checkpoint()->clear_dir();
  return config;
}

// Only weights and optimizer state: what is in flight belongs to the former
// stages.
absl::Status WriteCheckpoint(const Source& source, const RunIdentity& identity,
                             const std::vector<v1::StagePlacement>& stages,
                             int keep, Manifest manifest,
                             const std::string& run_dir) {
  const std::string step = io::StepFolderName(manifest.update);
  const Catalogue catalogue(run_dir + "/checkpoints", identity.run_id, keep);
  GIMBAL_RETURN_IF_ERROR(catalogue.Claim());
  std::erase_if(manifest.files, [](const v1::CheckpointFile& file) {
    return !io::IsLayerOrOptimizerFile(file.path());
  });
  for (const v1::CheckpointFile& file : manifest.files) {
    GIMBAL_RETURN_IF_ERROR(io::LinkOrCopyFile(
        absl::StrCat(source.root, "/", step, "/", file.path()),
        absl::StrCat(catalogue.root(), "/", step, "/", file.path())));
  }
  manifest.run_id = identity.run_id;
  manifest.config_digest = identity.config_digest;
  manifest.stages = stages;
  return catalogue.Commit(manifest);
}

absl::Status WriteMetrics(const std::string& from, const std::string& to,
                          int64_t last) {
  GIMBAL_RETURN_IF_ERROR(io::CopyFile(from, to));
  GIMBAL_ASSIGN_OR_RETURN(MetricsFile metrics, MetricsFile::Open(to));
  const absl::Status kept = metrics.Keep(last).status();
  if (!kept.ok()) {
    return absl::Status(kept.code(),
                        absl::StrReplaceAll(kept.message(), {{to, from}}));
  }
  return metrics.Sync();
}

absl::Status WriteStore(const Source& source, const RunIdentity& identity,
                        const std::vector<RefreshChange>& refreshes,
                        int64_t update, const StoredDecision& decision,
                        const std::string& run_dir) {
  GIMBAL_ASSIGN_OR_RETURN(const std::unique_ptr<RunStore> store,
                          OpenSqliteRunStore(run_dir + "/coordinator.db"));
  GIMBAL_RETURN_IF_ERROR(store->SetIdentity(identity));
  GIMBAL_RETURN_IF_ERROR(store->AddCheckpoint(update, decision.unix_seconds));
  for (const RefreshChange& change : refreshes) {
    GIMBAL_RETURN_IF_ERROR(store->AddRefreshChange(change));
  }
  // What guards have left out stays so; here everybody has gone back.
  GIMBAL_RETURN_IF_ERROR(store->Next("generation").status());
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<LeftOut> left_outs,
                          source.store->LeftOuts());
  for (LeftOut left_out : left_outs) {
    left_out.generation = 0;
    GIMBAL_RETURN_IF_ERROR(store->AddLeftOut(left_out, left_out.first));
  }
  GIMBAL_ASSIGN_OR_RETURN(const std::string numerics,
                          source.store->LastReason(kNumerics));
  GIMBAL_RETURN_IF_ERROR(
      store->AddDecision({decision.unix_seconds, kNumerics, numerics}));
  GIMBAL_RETURN_IF_ERROR(store->AddDecision(decision));
  GIMBAL_ASSIGN_OR_RETURN(EventFile events,
                          EventFile::Open(run_dir + "/events.jsonl"));
  events.Append(decision);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Resharded> Reshard(const ReshardOptions& options) {
  GIMBAL_RETURN_IF_ERROR(CheckOutside(options.out, options.run_dir));
  GIMBAL_ASSIGN_OR_RETURN(const Source source, OpenSource(options.run_dir));
  GIMBAL_ASSIGN_OR_RETURN(const Manifest manifest,
                          FindCheckpoint(source, options.update));
  const int64_t update = manifest.update;
  GIMBAL_ASSIGN_OR_RETURN(const v1::RunConfig config,
                          NewConfig(options, update));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> stages,
                          PlanStages(config));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<RefreshChange> refreshes,
                          source.store->RefreshChanges());
  const RunIdentity identity = NewIdentity(config, source.identity.data);
  const GoingOver words = Describe(update, stages, manifest.stages);
  const StoredDecision decision{
      .unix_seconds = base::Clock::Real().UnixSeconds(),
      .what = words.what,
      .reason = absl::StrCat("goes on from a checkpoint of run ",
                             source.identity.run_id, "; ", words.blocks),
      .update = update + 1};
  GIMBAL_ASSIGN_OR_RETURN(io::DraftFolder draft,
                          io::DraftFolder::Make(options.out));
  GIMBAL_RETURN_IF_ERROR(WriteCheckpoint(source, identity, stages,
                                         config.checkpoint().keep(), manifest,
                                         draft.path()));
  GIMBAL_RETURN_IF_ERROR(WriteMetrics(options.run_dir + "/metrics.jsonl",
                                      draft.path() + "/metrics.jsonl", update));
  GIMBAL_RETURN_IF_ERROR(WriteStore(source, identity,
                                    ReplanRefreshes(config, stages, refreshes),
                                    update, decision, draft.path()));
  GIMBAL_RETURN_IF_ERROR(io::WriteFileAtomically(draft.path() + "/config.yaml",
                                                 config::ToYaml(config)));
  GIMBAL_RETURN_IF_ERROR(draft.Commit());
  return Resharded{.update = update,
                   .finished = update == config.run().steps(),
                   .decision = decision.what};
}

}  // namespace gimbal::coordinator

#include "coordinator/store/run_folder.h"

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/store/sqlite_run_store.h"

namespace gimbal::coordinator {
namespace {

// Tells two runs of one config apart.
RunIdentity NewIdentity(const v1::RunConfig& config) {
  std::random_device random;
  return {.run_id = absl::StrFormat("%s-%08x", config.run().name(), random()),
          .config_digest = config::ConfigDigest(config),
          .config_yaml = config::ToYaml(config)};
}

absl::Status CheckSameConfig(const std::string& run_dir,
                             const RunIdentity& held,
                             const v1::RunConfig& config) {
  if (held.config_digest == config::ConfigDigest(config)) {
    return absl::OkStatus();
  }
  const auto held_config =
      config::ParseRunConfig(held.config_yaml, run_dir + "/coordinator.db", {});
  return absl::FailedPreconditionError(absl::StrCat(
      run_dir, ": holds a run of another config (",
      held_config.ok() ? config::FirstDifference(config, *held_config)
                       : "written by another release",
      "); resume it with its own config, or choose another folder"));
}

}  // namespace

absl::StatusOr<RunFolder> RunFolder::Take(const std::string& run_dir,
                                          const v1::RunConfig& config,
                                          bool resume) {
  GIMBAL_RETURN_IF_ERROR(io::CheckWritable(run_dir));
  GIMBAL_ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(run_dir));
  const std::string database = run_dir + "/coordinator.db";
  std::error_code error;
  const bool used = std::filesystem::exists(database, error);
  if (used && !resume) {
    return absl::AlreadyExistsError(absl::StrCat(
        run_dir,
        ": already holds a run; continue it with --resume, or choose "
        "another folder"));
  }
  GIMBAL_ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store,
                          OpenSqliteRunStore(database));
  GIMBAL_ASSIGN_OR_RETURN(std::optional<RunIdentity> identity,
                          store->Identity());
  if (identity.has_value()) {
    GIMBAL_RETURN_IF_ERROR(CheckSameConfig(run_dir, *identity, config));
  } else {
    identity = NewIdentity(config);
    GIMBAL_RETURN_IF_ERROR(store->SetIdentity(*identity));
  }
  GIMBAL_ASSIGN_OR_RETURN(MetricsFile metrics,
                          MetricsFile::Open(run_dir + "/metrics.jsonl"));
  GIMBAL_ASSIGN_OR_RETURN(EventFile events,
                          EventFile::Open(run_dir + "/events.jsonl"));
  return RunFolder{.run_dir = run_dir,
                   .lock = std::move(lock),
                   .identity = *std::move(identity),
                   .store = std::move(store),
                   .metrics = std::move(metrics),
                   .events = std::move(events)};
}

}  // namespace gimbal::coordinator

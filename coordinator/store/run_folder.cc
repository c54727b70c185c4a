#include "coordinator/store/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/layout/go_over.h"
#include "coordinator/layout/layout_change.h"
#include "coordinator/store/sqlite_run_store.h"

namespace gimbal::coordinator {
namespace {

std::string DatabasePath(const std::string& run_dir) {
  return run_dir + "/coordinator.db";
}

// The same contents under another path are the same data.
absl::Status CheckSameData(const std::string& run_dir, const std::string& held,
                           const std::string& data) {
  const std::vector<std::string> there = absl::StrSplit(held, '\n');
  const std::vector<std::string> here = absl::StrSplit(data, '\n');
  const size_t lines = std::min(there.size(), here.size());
  for (size_t i = 0; i < lines; ++i) {
    if (there[i] == here[i]) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        run_dir, ": holds a run on other data: ", here[i], " here, ", there[i],
        " there; resume it with the data it began with (the path may differ), "
        "or start a new run in another folder"));
  }
  return absl::OkStatus();
}

// Goes over to the stages of `config` when they are not those that are held.
absl::StatusOr<v1::RunConfig> TakeUp(const std::string& run_dir,
                                     const RunIdentity& identity,
                                     const v1::RunConfig& config,
                                     RunStore& store) {
  if (identity.config_digest == config::ConfigDigest(config)) {
    return config;
  }
  const auto held =
      config::ParseRunConfig(identity.config_yaml, DatabasePath(run_dir), {});
  absl::StatusOr<Continuation> next =
      held.ok() ? Continue(config, *held)
                : absl::FailedPreconditionError("written by another release");
  if (absl::IsFailedPrecondition(next.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        run_dir, ": holds a run of another config (", next.status().message(),
        "); resume it with its own config, or choose another folder"));
  }
  GIMBAL_RETURN_IF_ERROR(next.status());
  if (!next->other_stages) return next->config;
  return GoOver(run_dir, identity, next->config, *held, store);
}

// A store that knows no run, beside the rows of one, has lost it.
absl::Status CheckNewRun(const std::string& run_dir) {
  std::error_code error;
  const auto bytes =
      std::filesystem::file_size(run_dir + "/metrics.jsonl", error);
  if (error || bytes == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      DatabasePath(run_dir), ": knows of no run, though ", run_dir,
      "/metrics.jsonl has the rows of one: the file, or coordinator.db-wal "
      "beside it, is damaged or gone; put both back from a copy of the run "
      "folder. `gimbal generate` and `gimbal eval` need only the "
      "checkpoints"));
}

// Only a run that was there before has one.
absl::Status CheckNoOrigin(const v1::RunConfig& config) {
  if (config.pipeline().origin() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pipeline.origin: a run begins at update 0, not after ",
                   config.pipeline().origin(),
                   "; leave it out: `gimbal checkpoint reshard` sets it"));
}

}  // namespace

RunIdentity NewIdentity(const v1::RunConfig& config, const std::string& data) {
  std::random_device random;
  return {.run_id = absl::StrFormat("%s-%08x", config.run().name(), random()),
          .config_digest = config::ConfigDigest(config),
          .config_yaml = config::ToYaml(config),
          .data = data};
}

bool RunFolder::HoldsRun(const std::string& run_dir) {
  std::error_code error;
  return std::filesystem::exists(DatabasePath(run_dir), error);
}

absl::StatusOr<RunFolder> RunFolder::Take(const std::string& run_dir,
                                          const v1::RunConfig& config,
                                          const std::string& data,
                                          bool resume) {
  GIMBAL_RETURN_IF_ERROR(io::CheckWritable(run_dir));
  GIMBAL_ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(run_dir));
  if (HoldsRun(run_dir) && !resume) {
    return absl::AlreadyExistsError(absl::StrCat(
        run_dir,
        ": already holds a run; continue it with --resume, or choose "
        "another folder"));
  }
  GIMBAL_ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store,
                          OpenSqliteRunStore(DatabasePath(run_dir)));
  GIMBAL_ASSIGN_OR_RETURN(std::optional<RunIdentity> identity,
                          store->Identity());
  v1::RunConfig taken = config;
  if (identity.has_value()) {
    GIMBAL_RETURN_IF_ERROR(CheckSameData(run_dir, identity->data, data));
    GIMBAL_RETURN_IF_ERROR(CheckNothingForgotten(run_dir, *store));
    GIMBAL_ASSIGN_OR_RETURN(taken, TakeUp(run_dir, *identity, config, *store));
    GIMBAL_ASSIGN_OR_RETURN(identity, store->Identity());
  } else {
    GIMBAL_RETURN_IF_ERROR(CheckNewRun(run_dir));
    GIMBAL_RETURN_IF_ERROR(CheckNoOrigin(config));
  }
  std::error_code ignored;
  std::filesystem::remove(run_dir + "/coordinator.json", ignored);
  GIMBAL_RETURN_IF_ERROR(
      io::WriteFileAtomically(run_dir + "/config.yaml", config::ToYaml(taken)));
  if (!identity.has_value()) {
    identity = NewIdentity(config, data);
    GIMBAL_RETURN_IF_ERROR(store->SetIdentity(*identity));
  }
  GIMBAL_ASSIGN_OR_RETURN(MetricsFile metrics,
                          MetricsFile::Open(run_dir + "/metrics.jsonl"));
  GIMBAL_ASSIGN_OR_RETURN(EventFile events,
                          EventFile::Open(run_dir + "/events.jsonl"));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<StoredDecision> newest,
                          store->Decisions(1));
  for (const StoredDecision& decision : newest) {
    GIMBAL_RETURN_IF_ERROR(events.AppendMissing(decision));
  }
  return RunFolder{.run_dir = run_dir,
                   .config = std::move(taken),
                   .lock = std::move(lock),
                   .identity = *std::move(identity),
                   .store = std::move(store),
                   .metrics = std::move(metrics),
                   .events = std::move(events)};
}

}  // namespace gimbal::coordinator

#include "coordinator/cli/preflight.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/paths.h"
#include "common/config/run_config_io.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/data_check.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/port_check.h"
#include "coordinator/layout/layout_change.h"
#include "worker/pipeline/backend.h"
#include "worker/pipeline/specs.h"

namespace gimbal::cli {
namespace {

namespace fs = std::filesystem;

// A run's name is a label of any characters; a folder's is not.
std::string FolderName(const std::string& name) {
  std::string folder = name.empty() ? "run" : name;
  for (char& c : folder) {
    const bool good = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                      c == '_' || c == '-' || c == '.';
    if (!good) c = '_';
  }
  if (folder[0] == '.' || folder[0] == '-') folder[0] = '_';
  return folder;
}

std::string DefaultRunDir(const std::string& name, double unix_seconds) {
  const auto now = static_cast<std::time_t>(unix_seconds);
  std::tm local = {};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  return absl::StrCat("runs/", FolderName(name), "-", stamp);
}

// The folder may be missing: then the nearest existing parent counts. `what`
// names it, `option` is what chooses another.
absl::Status CheckCanBeMade(const std::string& dir, const char* what,
                            const char* option) {
  GIMBAL_ASSIGN_OR_RETURN(fs::path at, config::AbsolutePath(what, dir));
  std::error_code error;
  while (!fs::exists(at, error) && at.has_relative_path()) {
    at = at.parent_path();
  }
  if (!fs::is_directory(at, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, ": cannot be ", what, ": ", at.string(),
                     " is not a folder; choose another ", option));
  }
  if (access(at.c_str(), W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(dir, ": cannot write ", what, ": ", at.string(), ": ",
                     std::strerror(errno), "; choose another ", option));
  }
  return absl::OkStatus();
}

absl::Status CheckRunFolderCanBeMade(const std::string& dir) {
  return CheckCanBeMade(dir, "the run folder", "--run-dir");
}

absl::Status CheckRunFolderFree(const std::string& dir) {
  std::error_code error;
  if (fs::exists(dir + "/config.yaml", error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        dir,
        ": holds a run already; add --resume to go on with it, or choose "
        "another --run-dir"));
  }
  for (fs::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    // What a coordinator that could not start leaves behind.
    const std::string name = it->path().filename().string();
    if (name == "logs" || name == "coordinator.lock") continue;
    return absl::AlreadyExistsError(absl::StrCat(
        dir, ": is not empty and holds no run; choose another --run-dir"));
  }
  return CheckRunFolderCanBeMade(dir);
}

absl::Status CheckNewRun(const TrainPlan& plan) {
  if (const int64_t origin = plan.config.pipeline().origin(); origin > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.origin: ", origin,
        ", but a new run begins at update 0; set "
        "it to 0, or go on with a run of other stages: `gimbal checkpoint "
        "reshard`"));
  }
  return CheckRunFolderFree(plan.run_dir);
}

absl::Status CheckCheckpointDir(const TrainPlan& plan, bool resume) {
  const std::string root =
      coordinator::CheckpointRoot(plan.run_dir, plan.config);
  GIMBAL_RETURN_IF_ERROR(
      CheckCanBeMade(root, "the folder of the checkpoints", "checkpoint.dir"));
  return resume ? absl::OkStatus() : coordinator::CheckUnused(root);
}

// It says whose the checkpoints are, and what data the run began with.
absl::Status CheckDatabase(const std::string& dir,
                           const v1::RunConfig& config) {
  const std::string path = dir + "/coordinator.db";
  const std::string root = coordinator::CheckpointRoot(dir, config);
  std::error_code error;
  const bool began = !coordinator::CheckUnused(root).ok();
  if (!began || fs::exists(path, error)) return absl::OkStatus();
  const std::string word = ShellWord(dir);
  return absl::FailedPreconditionError(absl::StrCat(
      "--resume: ", path, " is missing, though ", root,
      " holds checkpoints; without it nobody knows that they are this run's: "
      "put it back from a copy of the folder. `gimbal generate ",
      word, "` and `gimbal eval ", word,
      "` need only the checkpoints; to train from update 0, give another "
      "--run-dir and no --resume"));
}

// The layout is taken over from the folder, unless other stages are asked for.
absl::Status TakeLayout(const std::string& dir, const v1::RunConfig& held,
                        TrainPlan* plan) {
  const int64_t origin = plan->config.pipeline().origin();
  absl::StatusOr<coordinator::Continuation> next =
      coordinator::Continue(plan->config, held);
  if (absl::IsFailedPrecondition(next.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--resume: ", dir, " holds a run of another config (",
        next.status().message(),
        "; `there` is the run folder); use that config or another --run-dir"));
  }
  GIMBAL_RETURN_IF_ERROR(next.status());
  if (origin != 0 && origin != held.pipeline().origin()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.origin: ", origin, " here, ", held.pipeline().origin(),
        " in ", dir, "; leave it out: going over to other stages sets it"));
  }
  if (next->other_stages) plan->stages_before = held.pipeline().stages();
  plan->config = std::move(next->config);
  return absl::OkStatus();
}

absl::Status CheckResumable(TrainPlan* plan) {
  const std::string& dir = plan->run_dir;
  GIMBAL_ASSIGN_OR_RETURN(const v1::RunConfig held,
                          config::LoadRunConfig(dir + "/config.yaml", {}));
  GIMBAL_RETURN_IF_ERROR(TakeLayout(dir, held, plan));
  GIMBAL_RETURN_IF_ERROR(CheckDatabase(dir, held));
  const absl::StatusOr<std::string> address = CoordinatorAddress(dir);
  if (address.ok() && AdminClient(*address, plan->credentials)
                          .GetStatus(base::Seconds(0.5))
                          .ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--resume: ", dir, " is being trained now (coordinator at ", *address,
        "); `gimbal train --coordinator ", *address, "` follows it"));
  }
  return CheckRunFolderCanBeMade(dir);
}

absl::StatusOr<std::string> ConfigPath(const TrainRequest& request) {
  if (request.resume && request.run_dir.empty()) {
    return absl::InvalidArgumentError(
        "--resume: say which run with --run-dir DIR");
  }
  const std::string held = request.run_dir + "/config.yaml";
  std::error_code error;
  if (request.resume && !fs::exists(held, error)) {
    return absl::NotFoundError(
        absl::StrCat("--resume: ", request.run_dir,
                     " holds no run (no config.yaml); leave "
                     "--resume out to start one"));
  }
  if (!request.config_path.empty()) return request.config_path;
  if (request.resume) return held;
  return absl::InvalidArgumentError(
      "train: a CONFIG.yaml is needed; deploy/examples has some");
}

absl::StatusOr<int> Workers(const TrainRequest& request, int stages, int gpus) {
  if (request.workers == 0) {
    return DefaultWorkers(
        stages, static_cast<int>(std::thread::hardware_concurrency()), gpus);
  }
  if (request.workers < 1 || request.workers > stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", request.workers, ": expected 1 to ", stages,
                     " (pipeline.stages)"));
  }
  return request.workers;
}

}  // namespace

int DefaultWorkers(int stages, int cores, int gpus) {
  return std::min(stages, gpus > 0 ? gpus : std::max(cores, 4));
}

absl::Status CheckTransport(const TrainPlan& plan,
                            const worker::DeviceLinks& links) {
  const v1::ClusterSection& cluster = plan.config.cluster();
  const int workers = plan.workers + cluster.spares();
  if (cluster.transport() != v1::TRANSPORT_NCCL || workers == 1) {
    return absl::OkStatus();
  }
  const auto refuse = [](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.transport: nccl, but ", why,
        "; --workers 1 runs all stages in one process, and cluster.transport "
        "tcp goes through the host's memory"));
  };
  if (plan.gpus == 0) return refuse("the workers compute on the CPU");
  if (links.nccl_version == 0) return refuse(links.nccl_missing);
  if (workers > plan.gpus) {
    return refuse(absl::StrCat(plan.workers, " workers and ", cluster.spares(),
                               " spares would share ", plan.gpus,
                               plan.gpus == 1 ? " GPU" : " GPUs",
                               ", and NCCL takes one process per GPU"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainPlan> Preflight(const TrainRequest& request,
                                    double unix_seconds) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string path, ConfigPath(request));
  TrainPlan plan;
  GIMBAL_ASSIGN_OR_RETURN(plan.config,
                          config::LoadRunConfig(path, request.overrides));
  v1::RunConfig& config = plan.config;
  GIMBAL_RETURN_IF_ERROR(config::ResolvePaths(config));
  GIMBAL_ASSIGN_OR_RETURN(plan.credentials,
                          rpc::Credentials::Load(rpc::FromEnvironment(
                              rpc::FilesOf(config.cluster()))));
  GIMBAL_RETURN_IF_ERROR(plan.credentials.CheckListen(
      "cluster.listen", config.cluster().listen()));
  GIMBAL_ASSIGN_OR_RETURN(
      const worker::Backend backend,
      worker::ChooseBackendFor(request.device, worker::EngineSpecOf(config)));
  plan.device = backend.device;
  plan.gpus = plan.device == "cuda" ? worker::FindCuda().devices : 0;
  GIMBAL_ASSIGN_OR_RETURN(
      plan.workers, Workers(request, config.pipeline().stages(), plan.gpus));
  GIMBAL_RETURN_IF_ERROR(CheckTransport(plan, backend.links));
  GIMBAL_RETURN_IF_ERROR(CheckData(config, request.resume));
  plan.run_dir = request.run_dir.empty()
                     ? DefaultRunDir(config.run().name(), unix_seconds)
                     : request.run_dir;
  GIMBAL_RETURN_IF_ERROR(request.resume ? CheckResumable(&plan)
                                        : CheckNewRun(plan));
  GIMBAL_RETURN_IF_ERROR(CheckCheckpointDir(plan, request.resume));
  GIMBAL_RETURN_IF_ERROR(CheckAddresses(config.cluster()));
  return plan;
}

}  // namespace gimbal::cli

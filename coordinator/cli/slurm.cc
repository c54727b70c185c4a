#include "coordinator/cli/slurm.h"

#include <cstdio>

#include "common/base/status_macros.h"
#include "common/config/paths.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/local_cluster.h"

namespace gimbal::cli {
namespace {

absl::Status Render(const SlurmOptions& options) {
  SlurmJob job = options.job;
  GIMBAL_ASSIGN_OR_RETURN(v1::RunConfig config,
                          config::LoadRunConfig(job.config, {}));
  GIMBAL_RETURN_IF_ERROR(config::ResolvePaths(config));
  if (job.bin_dir.empty()) job.bin_dir = ProgramFolder();
  GIMBAL_ASSIGN_OR_RETURN(job.config,
                          config::AbsolutePath("CONFIG", job.config));
  GIMBAL_ASSIGN_OR_RETURN(job.run_dir,
                          config::AbsolutePath("--run-dir", job.run_dir));
  GIMBAL_ASSIGN_OR_RETURN(job.bin_dir,
                          config::AbsolutePath("--bin-dir", job.bin_dir));
  GIMBAL_ASSIGN_OR_RETURN(const std::string script, SlurmScript(job, config));
  if (!options.out.empty()) {
    return io::WriteFileAtomically(options.out, script);
  }
  std::fputs(script.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

int RunSlurmRender(const SlurmOptions& options) {
  const absl::Status status = Render(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli

#include "coordinator/cli/doctor.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/config/paths.h"
#include "common/config/run_config_io.h"
#include "common/rpc/credentials.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/data_check.h"
#include "coordinator/cli/doctor_checks.h"
#include "coordinator/cli/doctor_security.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/memory.h"
#include "coordinator/planner/placement.h"
#include "worker/pipeline/backend.h"
#include "worker/pipeline/memory_plan.h"

namespace gimbal::cli {
namespace {

// Of this process, which a scheduler may have given a part of the machine.
int Cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

Finding CheckOwnName(const std::string& advertise) {
  if (!advertise.empty()) return CheckAdvertised(advertise);
  Finding finding = CheckName("this host", HostName());
  // Only others need it, and addresses do as well.
  if (finding.health == Health::kFail) finding.health = Health::kWarning;
  return finding;
}

// What a config asks of a node.
struct Needs {
  int64_t memory = 0;      // bytes of the stages here, the heaviest ones
  int64_t checkpoint = 0;  // bytes of a whole one
};

// Stages are dealt out evenly: a worker has at most `stages / workers` more.
absl::StatusOr<Needs> NeedsOf(const v1::RunConfig& config, int workers) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> plan,
                          coordinator::PlanStages(config));
  std::vector<int64_t> totals;
  Needs needs;
  for (const v1::StagePlacement& placement : plan) {
    const worker::StageMemory memory = worker::PlanStage(config, placement);
    totals.push_back(memory.total());
    needs.checkpoint += memory.snapshot;
  }
  std::sort(totals.rbegin(), totals.rend());
  totals.resize(std::min(totals.size(), static_cast<size_t>(workers)));
  for (const int64_t total : totals) needs.memory += total;
  return needs;
}

Finding DataFinding(const v1::RunConfig& config, bool resume) {
  const absl::Status status = CheckData(config, resume);
  if (!status.ok()) {
    return {"data", Health::kFail, std::string(status.message())};
  }
  return {"data", Health::kOk, config.data().train() + " can be read"};
}

void CheckConfig(const DoctorOptions& options, const v1::RunConfig& config,
                 std::vector<Finding>& findings) {
  const std::string run_dir = options.run_dir.empty() ? "." : options.run_dir;
  const std::string root = coordinator::CheckpointRoot(run_dir, config);
  findings.push_back(CheckWrite("run folder", run_dir, "--run-dir"));
  findings.push_back(CheckWrite("checkpoints", root, "checkpoint.dir"));
  const absl::StatusOr<Needs> needs = NeedsOf(config, options.workers);
  if (!needs.ok()) {
    findings.push_back(
        {"config", Health::kFail, std::string(needs.status().message())});
    return;
  }
  findings.push_back(
      CheckDisk(root, needs->checkpoint, config.checkpoint().keep()));
  // A run that the folder holds goes on as it began.
  const bool resume = access((run_dir + "/config.yaml").c_str(), F_OK) == 0;
  findings.push_back(DataFinding(config, resume));
  findings.push_back(CheckMemory(needs->memory, AvailableBytes()));
}

void CheckCoordinator(const std::string& address,
                      const rpc::Credentials& credentials,
                      std::vector<Finding>& findings) {
  findings.push_back(
      CheckName("the coordinator", address.substr(0, address.rfind(':'))));
  const double before = base::Clock::Real().UnixSeconds();
  const auto status = AdminClient(address, credentials).GetStatus();
  const double after = base::Clock::Real().UnixSeconds();
  if (!status.ok()) {
    findings.push_back(
        {"coordinator", Health::kFail, std::string(status.status().message())});
    return;
  }
  findings.push_back({"coordinator", Health::kOk,
                      address + " serves run " + status->run_id()});
  findings.push_back(CheckClock(status->unix_seconds() - (before + after) / 2));
}

absl::StatusOr<std::vector<Finding>> Examine(const DoctorOptions& options) {
  v1::RunConfig config;
  const bool configured = !options.config_path.empty();
  if (configured) {
    GIMBAL_ASSIGN_OR_RETURN(config,
                            config::LoadRunConfig(options.config_path, {}));
    GIMBAL_RETURN_IF_ERROR(config::ResolvePaths(config));
  }
  const worker::CudaSearch& cuda = worker::FindCuda();
  std::vector<Finding> findings = {
      CheckCpu(Cores(), options.workers,
               configured ? config.cluster().threads() : 1),
      CheckGpu(cuda.devices, cuda.text, options.gpus),
      CheckNccl(NcclVersion(), cuda.devices), CheckOwnName(options.advertise)};
  int64_t memory = 0;
  if (configured) {
    if (options.coordinator.empty()) {
      for (Finding& port : CheckPorts(config.cluster())) {
        findings.push_back(std::move(port));
      }
    }
    CheckConfig(options, config, findings);
    const absl::StatusOr<Needs> needs = NeedsOf(config, options.workers);
    if (needs.ok()) memory = needs->memory;
  } else if (!options.run_dir.empty()) {
    findings.push_back(CheckWrite("run folder", options.run_dir, "--run-dir"));
  }
  for (Finding& limit : CheckLimits(ReadLimits(), memory, cuda.devices)) {
    findings.push_back(std::move(limit));
  }
  const rpc::SecurityFiles files =
      rpc::FromEnvironment(rpc::FilesOf(config.cluster()));
  findings.push_back(CheckSecurity(
      files,
      {.listen = config.cluster().listen(), .advertise = options.advertise},
      base::Clock::Real().UnixSeconds()));
  const auto credentials = rpc::Credentials::Load(files);
  if (!options.coordinator.empty() && credentials.ok()) {
    CheckCoordinator(options.coordinator, *credentials, findings);
  }
  return findings;
}

void Print(const std::vector<Finding>& findings, bool json) {
  if (!json) {
    for (const Finding& finding : findings) {
      std::printf("%-8s %-12s %s\n", ToString(finding.health),
                  finding.check.c_str(), finding.text.c_str());
    }
    return;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    all.push_back({{"check", finding.check},
                   {"health", ToString(finding.health)},
                   {"text", finding.text}});
  }
  const nlohmann::ordered_json object = {{"host", HostName()}, {"checks", all}};
  std::printf("%s\n", object.dump(2).c_str());
}

}  // namespace

int RunDoctor(const DoctorOptions& options) {
  const absl::StatusOr<std::vector<Finding>> findings = Examine(options);
  if (!findings.ok()) return Fail(findings.status());
  Print(*findings, options.json);
  const bool failed = std::ranges::any_of(
      *findings, [](const Finding& f) { return f.health == Health::kFail; });
  return failed ? kBadUsage : kDone;
}

}  // namespace gimbal::cli

#include "coordinator/cli/plan.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/memory.h"
#include "coordinator/planner/placement.h"
#include "coordinator/planner/refresh_policy.h"
#include "worker/pipeline/memory_plan.h"
#include "worker/pipeline/specs.h"

namespace gimbal::cli {
namespace {

struct StagePlan {
  int stage = 0;
  std::string layers;
  int64_t delay = 0;
  double refresh_period = 0;  // updates; 0: the optimizer has no basis
  worker::StageMemory memory;
};

// "embedding, blocks 0-1", "block 7, head"
std::string Layers(const worker::StageSpec& spec) {
  const int last = spec.first_block + spec.blocks - 1;
  std::string text = spec.blocks == 1
                         ? absl::StrCat("block ", spec.first_block)
                         : absl::StrCat("blocks ", spec.first_block, "-", last);
  if (spec.first) text = "embedding, " + text;
  if (spec.last) text += ", head";
  return text;
}

absl::StatusOr<std::vector<StagePlan>> MakePlan(const v1::RunConfig& config) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> placements,
                          coordinator::PlanStages(config));
  const worker::ScheduleSpec schedule = worker::ScheduleSpecOf(config);
  const bool rotates =
      config.optimizer().name() == v1::OPTIMIZER_NAME_BASIS_ROTATION;
  const coordinator::RefreshPeriods refresh = coordinator::PlanRefreshes(
      coordinator::RefreshInputOf(config, placements));
  std::vector<StagePlan> plan;
  for (const v1::StagePlacement& placement : placements) {
    plan.push_back(
        {.stage = placement.stage(),
         .layers = Layers(worker::StageSpecOf(config, placement)),
         .delay = worker::Delay(schedule, placement.stage()),
         .refresh_period = rotates ? refresh.periods[placement.stage()] : 0,
         .memory = worker::PlanStage(config, placement)});
  }
  return plan;
}

int64_t TotalBytes(const std::vector<StagePlan>& plan) {
  int64_t bytes = 0;
  for (const StagePlan& stage : plan) bytes += stage.memory.total();
  return bytes;
}

std::string ToJson(const std::vector<StagePlan>& plan,
                   const v1::ClusterSection& cluster,
                   std::optional<int64_t> available) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StagePlan& stage : plan) {
    const worker::StageMemory& memory = stage.memory;
    nlohmann::ordered_json row = {{"stage", stage.stage},
                                  {"layers", stage.layers},
                                  {"parameters", memory.parameters},
                                  {"delay", stage.delay},
                                  {"weight_versions", memory.weight_versions},
                                  {"weights_bytes", memory.weights},
                                  {"gradients_bytes", memory.gradients},
                                  {"optimizer_bytes", memory.optimizer},
                                  {"offloaded_bytes", memory.offloaded},
                                  {"activation_slots", memory.activation_slots},
                                  {"activations_bytes", memory.activations},
                                  {"messages_bytes", memory.messages},
                                  {"snapshot_bytes", memory.snapshot},
                                  {"kept_bytes", memory.kept},
                                  {"total_bytes", memory.total()}};
    if (stage.refresh_period > 0) {
      row["refresh_period"] = stage.refresh_period;
    }
    stages.push_back(std::move(row));
  }
  const int64_t replay_mb = cluster.replay_memory_mb();
  nlohmann::ordered_json json = {{"stages", stages},
                                 {"total_bytes", TotalBytes(plan)},
                                 {"threads", cluster.threads()},
                                 {"replay_memory_bytes", replay_mb << 20}};
  if (available) json["available_bytes"] = *available;
  return json.dump(2) + "\n";
}

// What this machine has for them, when it runs all stages.
std::string RoomLine(int64_t needed, std::optional<int64_t> available) {
  if (!available) return "";
  const std::string warning = MemoryWarning(needed, available);
  return warning.empty() ? absl::StrCat("this machine has room for ",
                                        FormatBytes(*available), "\n")
                         : warning + "\n";
}

// "1.2 GiB", "300 MiB + 1.2 GiB" with the state on the host.
std::string Optimizer(const worker::StageMemory& memory) {
  const std::string text = FormatBytes(memory.optimizer);
  return memory.offloaded == 0
             ? text
             : absl::StrCat(text, " + ", FormatBytes(memory.offloaded));
}

std::string ToTable(const std::vector<StagePlan>& plan,
                    std::optional<int64_t> available) {
  TextTable table({"stage", "layers", "parameters", "delay", "refresh",
                   "weights", "gradients", "optimizer", "activations",
                   "messages", "snapshot", "kept", "total"});
  int64_t parameters = 0;
  for (const StagePlan& stage : plan) {
    const worker::StageMemory& memory = stage.memory;
    table.AddRow({absl::StrCat(stage.stage), stage.layers,
                  FormatCount(memory.parameters), absl::StrCat(stage.delay),
                  stage.refresh_period > 0
                      ? absl::StrFormat("%.4g", stage.refresh_period)
                      : "-",
                  absl::StrFormat("%s (%d)", FormatBytes(memory.weights),
                                  memory.weight_versions),
                  FormatBytes(memory.gradients), Optimizer(memory),
                  absl::StrFormat("%s (%d)", FormatBytes(memory.activations),
                                  memory.activation_slots),
                  FormatBytes(memory.messages), FormatBytes(memory.snapshot),
                  FormatBytes(memory.kept), FormatBytes(memory.total())});
    parameters += memory.parameters;
  }
  const auto heaviest = std::max_element(
      plan.begin(), plan.end(), [](const StagePlan& a, const StagePlan& b) {
        return a.memory.total() < b.memory.total();
      });
  const int64_t total = TotalBytes(plan);
  return absl::StrFormat(
      "%s\nweights (versions kept), activations (microbatches in flight); "
      "refresh: updates between%s\n%s parameters, %s over all stages; the "
      "heaviest is stage %d\n%s",
      table.ToString(),
      plan.front().memory.offloaded > 0
          ? "; optimizer: on the device + on the host"
          : "",
      FormatCount(parameters), FormatBytes(total), heaviest->stage,
      RoomLine(total, available));
}

absl::Status Show(const PlanOptions& options) {
  GIMBAL_ASSIGN_OR_RETURN(
      const v1::RunConfig config,
      config::LoadRunConfig(options.config_path, options.overrides));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<StagePlan> plan, MakePlan(config));
  const std::optional<int64_t> available = AvailableBytes();
  const std::string text = options.json
                               ? ToJson(plan, config.cluster(), available)
                               : ToTable(plan, available);
  std::printf("%s", text.c_str());
  return absl::OkStatus();
}

}  // namespace

int RunPlan(const PlanOptions& options) {
  const absl::Status status = Show(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli

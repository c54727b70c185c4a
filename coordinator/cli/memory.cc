#include "coordinator/cli/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "coordinator/cli/format.h"
#include "coordinator/planner/placement.h"
#include "worker/pipeline/memory_plan.h"

namespace gimbal::cli {
namespace {

namespace fs = std::filesystem;

// A stream, because files of /proc and /sys have no size.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> MemAvailable(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    int64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

// Limits from a group up to the top of its hierarchy: each one binds. A
// container may not see its own group, then those above it are the container's.
std::vector<int64_t> LimitsAbove(const std::string& top, fs::path group,
                                 const char* name) {
  std::vector<int64_t> limits;
  while (true) {
    int64_t limit = 0;  // "max" is none
    const std::string path = absl::StrCat(top, group.string(), "/", name);
    if (absl::SimpleAtoi(FirstLine(path), &limit)) limits.push_back(limit);
    if (!group.has_relative_path()) return limits;
    group = group.parent_path();
  }
}

// A line of /proc/self/cgroup is ID:CONTROLLERS:GROUP, without controllers for
// version 2.
std::vector<int64_t> GroupLimits(const std::string& root,
                                 const std::string& line) {
  const std::vector<std::string> parts =
      absl::StrSplit(line, absl::MaxSplits(':', 2));
  if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) return {};
  const std::string top = root + "/sys/fs/cgroup";
  if (parts[1].empty()) return LimitsAbove(top, parts[2], "memory.max");
  if (parts[1] != "memory") return {};
  return LimitsAbove(top + "/memory", parts[2], "memory.limit_in_bytes");
}

}  // namespace

absl::StatusOr<int64_t> PlannedBytes(const v1::RunConfig& config) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<v1::StagePlacement> placements,
                          coordinator::PlanStages(config));
  int64_t bytes = 0;
  for (const v1::StagePlacement& placement : placements) {
    bytes += worker::PlanStage(config, placement).total();
  }
  return bytes;
}

std::optional<int64_t> AvailableBytes(const std::string& root) {
  std::optional<int64_t> least = MemAvailable(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    for (const int64_t limit : GroupLimits(root, line)) {
      least = std::min(least.value_or(limit), limit);
    }
  }
  return least;
}

std::string MemoryWarning(int64_t needed, std::optional<int64_t> available) {
  if (!available || needed <= *available) return "";
  return absl::StrCat(
      "warning: the stages need about ", FormatBytes(needed),
      " together, but this machine has room for ", FormatBytes(*available),
      ": workers may be killed for want of memory; make batch.microbatch, "
      "model.context or the model smaller (`gimbal plan` shows what each stage "
      "holds)");
}

}  // namespace gimbal::cli

#include "coordinator/run/standstill.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gimbal::coordinator {
namespace {

using v1::GetStatusResponse;
using v1::StageView;
using v1::WorkerView;

// Two heartbeats and a half.
constexpr double kSilentSeconds = 1.25;

const WorkerView* FindWorker(const GetStatusResponse& status, int64_t id) {
  for (const WorkerView& worker : status.workers()) {
    if (worker.worker_id() == id) return &worker;
  }
  return nullptr;
}

std::string NameOf(const GetStatusResponse& status, const StageView& stage) {
  const WorkerView* worker = FindWorker(status, stage.worker_id());
  if (worker == nullptr) return absl::StrCat("stage ", stage.stage());
  return absl::StrCat("stage ", stage.stage(), " (", worker->name(), ", pid ",
                      worker->pid(), ")");
}

// What holds up others, rather than being held up by them.
bool WaitsForANeighbour(const std::string& activity) {
  return absl::StartsWith(activity, "waits") &&
         (absl::StrContains(activity, " stage ") ||
          absl::StrContains(activity, " stages"));
}

std::string Culprit(const GetStatusResponse& status) {
  const StageView* silent = nullptr;
  double longest = kSilentSeconds;
  for (const StageView& stage : status.stages()) {
    const WorkerView* worker = FindWorker(status, stage.worker_id());
    if (worker == nullptr) continue;
    // Whoever waits for it falls silent later, if at all.
    if (worker->heartbeat_age_seconds() > longest) {
      longest = worker->heartbeat_age_seconds();
      silent = &stage;
    }
  }
  if (silent != nullptr) {
    return absl::StrFormat("%s is silent for %.1f s", NameOf(status, *silent),
                           longest);
  }
  for (const StageView& stage : status.stages()) {
    const WorkerView* worker = FindWorker(status, stage.worker_id());
    const std::string state = worker == nullptr ? "" : worker->state();
    if (state == "loading" || state == "joining") {
      return absl::StrCat(NameOf(status, stage), " is ", state);
    }
  }
  if (status.update() >= status.steps()) {
    return "the last checkpoint is being written";
  }
  // The one that is furthest behind, of those that could go on by themselves.
  const StageView* culprit = nullptr;
  for (const StageView& stage : status.stages()) {
    if (WaitsForANeighbour(stage.activity())) continue;
    if (culprit == nullptr ||
        stage.weight_version() < culprit->weight_version()) {
      culprit = &stage;
    }
  }
  if (culprit == nullptr) return "every stage waits for another one";
  return absl::StrCat(NameOf(status, *culprit), ": ", culprit->activity());
}

}  // namespace

std::string Standstill(const GetStatusResponse& status, double seconds,
                       const std::string& missing) {
  return absl::StrFormat("no update for %.0f s: %s", seconds,
                         missing.empty() ? Culprit(status) : missing);
}

std::string MissingText(const std::vector<int>& vacant_stages,
                        const std::string& lost, size_t there, size_t needed) {
  const size_t vacant = vacant_stages.size();
  return absl::StrCat(
      vacant == 0   ? ""
      : vacant == 1 ? absl::StrCat("stage ", vacant_stages[0], " has")
                    : absl::StrCat("stages ",
                                   absl::StrJoin(vacant_stages, ", "), " have"),
      vacant == 0 ? "" : " no worker",
      vacant == 0 || lost.empty() ? "" : absl::StrCat(" (", lost, ")"),
      vacant == 0 ? "" : "; ", there, " of ", needed, " workers are there");
}

}  // namespace gimbal::coordinator

#include "coordinator/summary.h"

#include <nlohmann/json.hpp>

namespace gimbal::coordinator {
namespace {

using Json = nlohmann::ordered_json;

Json StageJson(const v1::StageView& stage) {
  return {{"stage", stage.stage()},
          {"layers", stage.layers()},
          {"delay_expected", stage.delay_expected()},
          {"staleness_mean", stage.staleness_mean()},
          {"staleness_max", stage.staleness_max()},
          {"busy_fraction", stage.busy_fraction()},
          {"refreshes", stage.refreshes()},
          {"restarts", stage.restarts()}};
}

Json RecoveryJson(const Recovery& recovery) {
  Json json = {{"stage", recovery.stage},
               {"reason", recovery.reason},
               {"detected_seconds", recovery.detected_seconds},
               {"recovered_seconds", nullptr},
               {"steps_replayed", recovery.steps_replayed}};
  if (recovery.recovered_seconds > 0) {
    json["recovered_seconds"] = recovery.recovered_seconds;
  }
  return json;
}

}  // namespace

std::string SummaryJson(const v1::GetStatusResponse& status,
                        const std::vector<Recovery>& recoveries,
                        int64_t coordinator_peak_rss_bytes) {
  const double seconds = status.wall_seconds();
  Json json = {
      {"steps", status.update()},
      {"final_loss", nullptr},
      {"valid_loss", nullptr},
      {"tokens", status.tokens()},
      {"tokens_per_second",
       seconds > 0 ? static_cast<double>(status.tokens()) / seconds : 0.0},
      {"wall_seconds", seconds},
      {"training_seconds", status.training_seconds()},
      {"exit_reason", status.reason()},
      {"left_out", status.left_out()},
      {"stages", Json::array()},
      {"recoveries", Json::array()},
      {"peak_rss_bytes", {{"coordinator", coordinator_peak_rss_bytes}}}};
  if (status.has_smoothed_loss()) json["final_loss"] = status.smoothed_loss();
  if (status.has_valid_loss()) json["valid_loss"] = status.valid_loss();
  for (const v1::StageView& stage : status.stages()) {
    json["stages"].push_back(StageJson(stage));
  }
  for (const Recovery& recovery : recoveries) {
    json["recoveries"].push_back(RecoveryJson(recovery));
  }
  for (const v1::WorkerView& worker : status.workers()) {
    json["peak_rss_bytes"][worker.name()] = worker.peak_rss_bytes();
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gimbal::coordinator

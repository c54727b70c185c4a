#include "coordinator/cli/run_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "coordinator/cli/comparison.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

using nlohmann::json;

std::optional<double> OptionalNumber(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  return it->get<double>();
}

StageSummary ParseStage(const json& object) {
  StageSummary stage;
  stage.stage = object.at("stage").get<int>();
  stage.layers = object.at("layers").get<std::string>();
  stage.delay_expected = object.at("delay_expected").get<int64_t>();
  stage.staleness_mean = object.at("staleness_mean").get<double>();
  stage.staleness_max = object.at("staleness_max").get<int64_t>();
  stage.busy_fraction = object.at("busy_fraction").get<double>();
  stage.refreshes = object.at("refreshes").get<int64_t>();
  stage.restarts = object.at("restarts").get<int>();
  return stage;
}

RunSummary Parse(const json& object) {
  RunSummary summary;
  summary.steps = object.at("steps").get<int64_t>();
  summary.final_loss = OptionalNumber(object, "final_loss");
  summary.valid_loss = OptionalNumber(object, "valid_loss");
  summary.tokens = object.at("tokens").get<int64_t>();
  summary.tokens_per_second = object.at("tokens_per_second").get<double>();
  summary.wall_seconds = object.at("wall_seconds").get<double>();
  summary.exit_reason = object.at("exit_reason").get<std::string>();
  summary.left_out = object.value("left_out", int64_t{0});
  for (const json& stage : object.at("stages")) {
    summary.stages.push_back(ParseStage(stage));
  }
  return summary;
}

std::string FinalLoss(const RunSummary& summary) {
  if (!summary.final_loss) return "none";
  return absl::StrFormat("%.4f (mean of the last %d)", *summary.final_loss,
                         std::min<int64_t>(summary.steps, kLossWindow));
}

std::string Loss(const std::optional<double>& loss) {
  return loss ? absl::StrFormat("%.4f", *loss) : "none";
}

}  // namespace

absl::StatusOr<RunSummary> ReadRunSummary(const std::string& run_dir) {
  const std::string path = run_dir + "/summary.json";
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  try {
    return Parse(json::parse(text));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a run's summary: ", error.what()));
  }
}

std::string FormatSummary(const RunSummary& summary) {
  std::string text = absl::StrFormat(
      "updates      %s\n"
      "final loss   %s\n"
      "valid loss   %s\n"
      "tokens       %s\n"
      "speed        %s tokens/s\n"
      "wall time    %s\n\n",
      FormatCount(summary.steps), FinalLoss(summary), Loss(summary.valid_loss),
      FormatCount(summary.tokens),
      FormatCount(static_cast<int64_t>(summary.tokens_per_second)),
      FormatDuration(summary.wall_seconds));
  TextTable table({"stage", "layers", "delay", "staleness mean", "max", "busy",
                   "refreshes", "restarts"});
  for (const StageSummary& stage : summary.stages) {
    table.AddRow({absl::StrCat(stage.stage), stage.layers,
                  absl::StrCat(stage.delay_expected),
                  absl::StrFormat("%.2f", stage.staleness_mean),
                  absl::StrCat(stage.staleness_max),
                  FormatPercent(stage.busy_fraction),
                  absl::StrCat(stage.refreshes), absl::StrCat(stage.restarts)});
  }
  if (summary.left_out > 0) {
    absl::StrAppend(&text, "A guard left out ", FormatCount(summary.left_out),
                    " minibatches; events.jsonl says why.\n\n");
  }
  return text + table.ToString();
}

}  // namespace gimbal::cli

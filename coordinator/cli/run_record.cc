#include "coordinator/cli/run_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"

namespace gimbal::cli {
namespace {

using nlohmann::json;

// "SCHEDULE_KIND_ASYNC_1F1B" without the prefix as in YAML: "async-1f1b".
std::string YamlName(const std::string& enum_name, std::string_view prefix,
                     const char* separator) {
  return absl::StrReplaceAll(
      absl::AsciiStrToLower(enum_name.substr(prefix.size())),
      {{"_", separator}});
}

MetricsRow ParseRow(std::string_view line) {
  const json object = json::parse(line);
  MetricsRow row;
  row.step = object.at("step").get<int64_t>();
  // What a guard left out says nothing of the model.
  const json& loss = object.at("loss");
  row.loss = object.contains("left_out") || loss.is_null()
                 ? std::numeric_limits<double>::quiet_NaN()
                 : loss.get<double>();
  row.tokens = object.at("tokens").get<int64_t>();
  row.seconds = object.at("seconds").get<double>();
  if (const auto it = object.find("valid_loss");
      it != object.end() && !it->is_null()) {
    row.valid_loss = it->get<double>();
  }
  return row;
}

// Curves and means go on at the last loss that counted.
void FillGaps(std::vector<MetricsRow>* rows) {
  const auto first = std::ranges::find_if(
      *rows, [](const MetricsRow& row) { return std::isfinite(row.loss); });
  double last = first == rows->end() ? 0 : first->loss;
  for (MetricsRow& row : *rows) {
    if (!std::isfinite(row.loss)) row.loss = last;
    last = row.loss;
  }
}

absl::StatusOr<std::vector<MetricsRow>> ReadRows(const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  std::vector<MetricsRow> rows;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string where = absl::StrCat(path, ":", rows.size() + 1, ": ");
    try {
      rows.push_back(
          ParseRow(std::string_view(text).substr(begin, end - begin)));
    } catch (const json::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, "not a row of metrics (step, loss, tokens, seconds): ",
          error.what()));
    }
    if (rows.back().step != static_cast<int64_t>(rows.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, "expected step ", rows.size(), ", found ", rows.back().step));
    }
  }
  if (rows.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": holds no update yet; try again later"));
  }
  FillGaps(&rows);
  return rows;
}

}  // namespace

absl::StatusOr<RunRecord> ReadRunRecord(const std::string& run_dir) {
  std::error_code error;
  if (!std::filesystem::exists(run_dir + "/config.yaml", error)) {
    return absl::NotFoundError(
        absl::StrCat(run_dir, ": not a run folder (no config.yaml)"));
  }
  GIMBAL_ASSIGN_OR_RETURN(const v1::RunConfig config,
                          config::LoadRunConfig(run_dir + "/config.yaml", {}));
  RunRecord record;
  GIMBAL_ASSIGN_OR_RETURN(record.rows, ReadRows(run_dir + "/metrics.jsonl"));
  const std::filesystem::path path =
      std::filesystem::absolute(run_dir).lexically_normal();
  record.label =
      path.has_filename() ? path.filename() : path.parent_path().filename();
  record.method = YamlName(v1::OptimizerName_Name(config.optimizer().name()),
                           "OPTIMIZER_NAME_", "_");
  record.schedule =
      YamlName(v1::ScheduleKind_Name(config.pipeline().schedule()),
               "SCHEDULE_KIND_", "-");
  record.stages = config.pipeline().stages();
  return record;
}

}  // namespace gimbal::cli

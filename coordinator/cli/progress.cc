#include "coordinator/cli/progress.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/comparison.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

using v1::GetStatusResponse;
using v1::StageView;

constexpr int kBarWidth = 40;
constexpr int kStageRows = 16;  // more would fill a terminal

std::string Staleness(const StageView& stage) {
  return stage.has_staleness() ? absl::StrCat(stage.staleness()) : "-";
}

// "3,2,1,0 (expected 3,2,1,0)"
std::string StalenessList(const GetStatusResponse& status) {
  std::vector<std::string> measured, expected;
  for (const StageView& stage : status.stages()) {
    measured.push_back(Staleness(stage));
    expected.push_back(absl::StrCat(stage.delay_expected()));
  }
  return absl::StrCat(absl::StrJoin(measured, ","), " (expected ",
                      absl::StrJoin(expected, ","), ")");
}

std::string Bar(int64_t update, int64_t steps) {
  const double done =
      steps > 0 ? std::clamp(static_cast<double>(update) / steps, 0.0, 1.0) : 0;
  const int filled = static_cast<int>(done * kBarWidth);
  return absl::StrCat(
      "[", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), "] ",
      FormatCount(update), "/", FormatCount(steps), "  ", FormatPercent(done));
}

std::vector<std::string> Losses(const GetStatusResponse& status) {
  std::vector<std::string> parts;
  if (status.has_loss()) {
    parts.push_back(absl::StrFormat("loss %.4f", status.loss()));
  }
  if (status.has_valid_loss()) {
    parts.push_back(absl::StrFormat("valid %.4f at %d", status.valid_loss(),
                                    status.valid_update()));
  }
  return parts;
}

std::string Speed(const GetStatusResponse& status) {
  return absl::StrCat(
      FormatCount(static_cast<int64_t>(status.tokens_per_second())),
      " tokens/s");
}

std::string LeftOut(const GetStatusResponse& status) {
  return absl::StrCat(FormatCount(status.left_out()), " left out");
}

std::string WorkerName(const GetStatusResponse& status, int64_t id) {
  for (const v1::WorkerView& worker : status.workers()) {
    if (worker.worker_id() == id) return worker.name();
  }
  return "-";
}

std::string StageTable(const GetStatusResponse& status, size_t columns) {
  TextTable table({"stage", "layers", "worker", "version", "staleness",
                   "expected", "busy", "restarts", "activity"});
  for (const StageView& stage : status.stages()) {
    table.AddRow({absl::StrCat(stage.stage()), stage.layers(),
                  WorkerName(status, stage.worker_id()),
                  absl::StrCat(stage.weight_version()), Staleness(stage),
                  absl::StrCat(stage.delay_expected()),
                  FormatPercent(stage.busy_fraction()),
                  absl::StrCat(stage.restarts()), stage.activity()});
  }
  return table.ToString(columns);
}

// What fits on 80 columns, the activity above all.
std::string NarrowStageTable(const GetStatusResponse& status) {
  TextTable table(
      {"stage", "worker", "version", "staleness", "busy", "activity"});
  for (const StageView& stage : status.stages()) {
    table.AddRow({absl::StrCat(stage.stage()),
                  WorkerName(status, stage.worker_id()),
                  absl::StrCat(stage.weight_version()),
                  absl::StrCat(Staleness(stage), "/", stage.delay_expected()),
                  FormatPercent(stage.busy_fraction()), stage.activity()});
  }
  return table.ToString();
}

// "0-3,6"
std::string Ranges(const google::protobuf::RepeatedField<int32_t>& numbers) {
  std::string text;
  for (int i = 0; i < numbers.size(); ++i) {
    int last = i;
    while (last + 1 < numbers.size() &&
           numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    absl::StrAppend(&text, text.empty() ? "" : ",", numbers[i]);
    if (last > i)
      absl::StrAppend(&text, last > i + 1 ? "-" : ",", numbers[last]);
    i = last;
  }
  return text;
}

std::string WorkerTable(const GetStatusResponse& status, size_t columns) {
  TextTable table(
      {"worker", "state", "pid", "stages", "heartbeat", "memory", "metrics"});
  for (const v1::WorkerView& worker : status.workers()) {
    table.AddRow({worker.name(), worker.state(), absl::StrCat(worker.pid()),
                  Ranges(worker.stages()),
                  absl::StrFormat("%.1f s ago", worker.heartbeat_age_seconds()),
                  FormatBytes(worker.peak_rss_bytes()),
                  worker.metrics_address()});
  }
  return table.ToString(columns);
}

std::string Headline(const GetStatusResponse& status) {
  std::string line =
      absl::StrCat(status.name(), "  ", StateName(status.state()), "  ",
                   FormatDuration(status.wall_seconds()));
  if (status.has_eta_seconds()) {
    absl::StrAppend(&line, "  ETA ", FormatDuration(status.eta_seconds()));
  }
  if (status.state() != v1::RUN_STATE_RUNNING && !status.reason().empty()) {
    absl::StrAppend(&line, "  (", status.reason(), ")");
  }
  return line;
}

// The mean, if there is one, is at `mean`.
std::vector<std::string> LossParts(const GetStatusResponse& status,
                                   size_t* mean) {
  std::vector<std::string> parts = Losses(status);
  *mean = parts.size();
  if (status.has_smoothed_loss()) {
    parts.push_back(absl::StrFormat(
        "mean of %d: %.4f",
        std::min<int64_t>(status.update() - status.left_out(), kLossWindow),
        status.smoothed_loss()));
  }
  parts.push_back(Speed(status));
  if (status.has_last_checkpoint()) {
    parts.push_back(absl::StrCat("checkpoint ", status.last_checkpoint()));
  }
  if (status.left_out() > 0) parts.push_back(LeftOut(status));
  return parts;
}

// All parts, in as many lines as they take.
std::string LossLines(const GetStatusResponse& status, size_t columns) {
  size_t mean = 0;
  std::string text, line;
  for (const std::string& part : LossParts(status, &mean)) {
    if (!line.empty() && ColumnsOf(line) + 2 + ColumnsOf(part) > columns) {
      absl::StrAppend(&text, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : "  ", part);
  }
  return absl::StrCat(text, line, "\n");
}

// As many parts as there is room for, the others left out by their use.
std::string LossLine(const GetStatusResponse& status, size_t columns) {
  size_t mean = 0;
  std::vector<std::string> parts = LossParts(status, &mean);
  std::string line = absl::StrJoin(parts, "  ");
  if (status.has_smoothed_loss() && ColumnsOf(line) > columns) {
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(mean));
    line = absl::StrJoin(parts, "  ");
  }
  while (parts.size() > 1 && ColumnsOf(line) > columns) {
    parts.pop_back();
    line = absl::StrJoin(parts, "  ");
  }
  return line;
}

// The table's lines, or as many of them as there is room for and a line that
// says how many stages are not shown.
std::vector<std::string> RowsOfStages(const GetStatusResponse& status,
                                      size_t room) {
  std::vector<std::string> lines =
      absl::StrSplit(NarrowStageTable(status), '\n', absl::SkipEmpty());
  if (lines.size() <= room) return lines;
  const size_t head = lines.size() - status.stages_size();
  const size_t shown = room > head + 1 ? room - head - 1 : 0;
  lines.resize(shown > 0 ? head + shown : 0);
  lines.push_back(
      absl::StrCat("+", status.stages_size() - static_cast<int>(shown),
                   status.stages_size() - shown == 1 ? " stage" : " stages"));
  return lines;
}

}  // namespace

std::string StateName(v1::RunState state) {
  std::string name = v1::RunState_Name(state);
  constexpr char kPrefix[] = "RUN_STATE_";
  if (name.rfind(kPrefix, 0) == 0) name = name.substr(sizeof(kPrefix) - 1);
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", " "}});
}

std::string ProgressLine(const GetStatusResponse& status) {
  std::vector<std::string> parts = {
      absl::StrCat("update ", status.update(), "/", status.steps())};
  for (std::string& part : Losses(status)) parts.push_back(std::move(part));
  parts.push_back(Speed(status));
  if (status.stages_size() > 0) {
    parts.push_back(absl::StrCat("staleness ", StalenessList(status)));
  }
  if (status.left_out() > 0) parts.push_back(LeftOut(status));
  if (status.has_eta_seconds()) {
    parts.push_back(absl::StrCat("ETA ", FormatDuration(status.eta_seconds())));
  }
  if (status.state() != v1::RUN_STATE_RUNNING) {
    parts.push_back(absl::StrCat("[", StateName(status.state()), "]"));
  }
  if (!status.standstill().empty()) {
    parts.push_back(absl::StrCat("[", status.standstill(), "]"));
  }
  return absl::StrJoin(parts, "  ");
}

std::vector<std::string> ProgressBlock(const GetStatusResponse& status,
                                       TextSize size) {
  std::vector<std::string> lines = {Headline(status),
                                    Bar(status.update(), status.steps()),
                                    LossLine(status, size.columns)};
  if (!status.standstill().empty()) lines.push_back(status.standstill());
  if (status.stages_size() > kStageRows) {
    lines.push_back(absl::StrCat("staleness ", StalenessList(status)));
  } else if (status.stages_size() > 0 && lines.size() < size.lines) {
    for (std::string& row : RowsOfStages(status, size.lines - lines.size())) {
      lines.push_back(std::move(row));
    }
  }
  if (lines.size() > size.lines) lines.resize(size.lines);
  for (std::string& line : lines) line = Fit(line, size.columns);
  return lines;
}

std::string StatusReport(const GetStatusResponse& status, size_t columns) {
  std::vector<std::string> lines = {Headline(status),
                                    Bar(status.update(), status.steps()),
                                    LossLines(status, columns)};
  if (!status.standstill().empty()) lines.push_back(status.standstill());
  lines.push_back(absl::StrCat(status.schedule(), ", ", status.optimizer(),
                               ", generation ", status.generation(), ", ",
                               status.run_dir()));
  if (status.stages_size() > 0) {
    lines.push_back(absl::StrCat("\n", StageTable(status, columns)));
  }
  if (status.workers_size() > 0) {
    lines.push_back(absl::StrCat("\n", WorkerTable(status, columns)));
  }
  for (const v1::WorkerView& worker : status.workers()) {
    if (worker.trace_failure().empty()) continue;
    lines.push_back(absl::StrCat(
        worker.name(), " records no trace: ", worker.trace_failure()));
  }
  if (status.decisions_size() > 0) lines.push_back("\ndecisions");
  for (const v1::Decision& decision : status.decisions()) {
    lines.push_back(absl::StrCat("  ", decision.what(),
                                 decision.reason().empty() ? "" : ": ",
                                 decision.reason()));
  }
  std::string text;
  for (const std::string& line : lines) {
    // What ends with a line has the right ones.
    const bool whole = !line.empty() && line.back() == '\n';
    absl::StrAppend(&text, whole ? line : Wrap(line, columns, "    ") + "\n");
  }
  return text;
}

}  // namespace gimbal::cli

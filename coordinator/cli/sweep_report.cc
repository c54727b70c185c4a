#include "coordinator/cli/sweep_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "coordinator/cli/comparison.h"
#include "coordinator/cli/plot_bars.h"
#include "coordinator/cli/plot_svg.h"

namespace gimbal::cli {
namespace {

std::string LabelOf(const SweepGroup& group) {
  return absl::StrCat(group.method, ", P = ", group.stages);
}

int MostStages(const std::vector<SweepGroup>& groups) {
  int most = 1;
  for (const SweepGroup& group : groups) most = std::max(most, group.stages);
  return most;
}

// The deepest pipelines, and the baseline without one.
std::string LossFigure(const SweepSpec& spec,
                       const std::vector<SweepGroup>& groups) {
  std::vector<PlotLine> lines;
  size_t window = 0;
  for (const SweepGroup& group : groups) {
    window = std::max(window, group.losses.size());
    if (group.stages == MostStages(groups) || group.method == spec.baseline) {
      lines.push_back({.label = LabelOf(group), .y = group.losses});
    }
  }
  window = std::min<size_t>(window, kLossWindow);
  return LossPlot(
      {"Loss by method",
       absl::StrCat("cross-entropy per token, mean of the last ", window,
                    window == 1 ? " update" : " updates",
                    " and of the seeds, each at its best learning rate")},
      lines);
}

// The hardest target that most groups reach tells the methods apart.
size_t TellingTarget(const std::vector<SweepGroup>& groups, size_t targets) {
  size_t best = 0, reached_by = 0;
  for (size_t i = 0; i < targets; ++i) {
    size_t reached = 0;
    for (const SweepGroup& group : groups) reached += group.steps[i] ? 1 : 0;
    if (reached >= reached_by) {
      best = i;
      reached_by = reached;
    }
  }
  return best;
}

std::string SlowdownFigure(const SweepSpec& spec,
                           const std::vector<SweepGroup>& groups,
                           const std::vector<double>& targets) {
  const size_t target = TellingTarget(groups, targets.size());
  std::vector<PlotLine> lines;
  for (const SweepMethod& method : spec.methods) {
    PlotLine line{.label = method.name};
    for (const SweepGroup& group : groups) {
      if (group.method != method.name || !group.slowdown_baseline[target]) {
        continue;
      }
      line.x.push_back(group.stages);
      line.y.push_back(*group.slowdown_baseline[target]);
    }
    if (!line.y.empty()) lines.push_back(std::move(line));
  }
  if (lines.empty()) return "";
  return LossPlot(
      {.title = "Slow-down with the depth of the pipeline",
       .subtitle = absl::StrFormat(
           "updates to a loss of %g, over those of %s at the fewest stages",
           targets[target], spec.baseline),
       .x_title = "stages P"},
      lines);
}

std::string UpdatesFigure(const std::vector<SweepGroup>& groups,
                          const std::vector<double>& targets) {
  const size_t target = TellingTarget(groups, targets.size());
  std::vector<PlotBar> bars;
  for (const SweepGroup& group : groups) {
    bars.push_back({LabelOf(group), group.steps[target]});
  }
  return BarPlot(
      {.title = absl::StrFormat("Updates to a loss of %g", targets[target]),
       .subtitle = "mean of the seeds, each method at its best "
                   "learning rate"},
      bars);
}

}  // namespace

absl::Status WriteSweepReport(const SweepSpec& spec,
                              const SweepRecords& records,
                              const std::string& folder) {
  const std::vector<double> targets = TargetsOf(spec, records);
  const std::vector<SweepGroup> groups = GroupsOf(spec, records, targets);
  const auto write = [&](const char* name, const std::string& text) {
    return io::WriteFileAtomically(absl::StrCat(folder, "/", name), text);
  };
  GIMBAL_RETURN_IF_ERROR(write("runs.csv", RunsCsv(spec, records, targets)));
  GIMBAL_RETURN_IF_ERROR(
      write("table.md", GroupsMarkdown(groups, targets, spec.baseline)));
  GIMBAL_RETURN_IF_ERROR(write("loss.svg", LossFigure(spec, groups)));
  const std::string slowdown = SlowdownFigure(spec, groups, targets);
  if (!slowdown.empty()) {
    GIMBAL_RETURN_IF_ERROR(write("slowdown.svg", slowdown));
  }
  return write("updates.svg", UpdatesFigure(groups, targets));
}

}  // namespace gimbal::cli

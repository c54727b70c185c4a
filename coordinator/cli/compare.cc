#include "coordinator/cli/compare.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "coordinator/cli/comparison.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/plot_svg.h"

namespace gimbal::cli {
namespace {

// A tenth of the shortest run at most, so that short runs keep their shape.
int PlotWindow(const std::vector<RunRecord>& runs) {
  size_t shortest = runs.front().rows.size();
  for (const RunRecord& run : runs) {
    shortest = std::min(shortest, run.rows.size());
  }
  return std::clamp(static_cast<int>(shortest / 10), 1, kLossWindow);
}

absl::Status WritePlot(const std::vector<RunRecord>& runs,
                       const CompareOptions& options) {
  const int window = PlotWindow(runs);
  std::vector<PlotLine> lines;
  for (const RunRecord& run : runs) {
    lines.push_back(
        {.label = run.label, .y = SmoothedLosses(run.rows, window)});
  }
  const PlotText text = {
      options.title,
      absl::StrCat("cross-entropy per token, mean of the last ", window,
                   window == 1 ? " update" : " updates")};
  GIMBAL_RETURN_IF_ERROR(
      io::WriteFileAtomically(options.plot, LossPlot(text, lines)));
  std::printf("\nplot: %s\n", options.plot.c_str());
  return absl::OkStatus();
}

absl::Status Compare(const CompareOptions& options) {
  std::vector<RunRecord> runs;
  for (const std::string& dir : options.run_dirs) {
    GIMBAL_ASSIGN_OR_RETURN(RunRecord run, ReadRunRecord(dir));
    runs.push_back(std::move(run));
  }
  const std::vector<double> targets =
      options.targets.empty() ? DefaultTargets(runs) : options.targets;
  std::printf("%s", ComparisonTable(runs, targets).c_str());
  std::printf(
      "\nlosses are means of the last %s; `to X`: updates until that "
      "mean is X;\nslow-down: those updates over the ones of %s\n",
      LossWindowText(runs).c_str(), runs.front().label.c_str());
  return options.plot.empty() ? absl::OkStatus() : WritePlot(runs, options);
}

}  // namespace

int RunCompare(const CompareOptions& options) {
  const absl::Status status = Compare(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli

#include "coordinator/cli/comparison.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

double FinalLoss(const RunRecord& run) {
  return SmoothedLosses(run.rows, kLossWindow).back();
}

std::string LastValidLoss(const RunRecord& run) {
  for (auto row = run.rows.rbegin(); row != run.rows.rend(); ++row) {
    if (row->valid_loss) return absl::StrFormat("%.4f", *row->valid_loss);
  }
  return "-";
}

std::string TokensPerSecond(const RunRecord& run) {
  const MetricsRow& last = run.rows.back();
  if (last.seconds <= 0) return "-";
  return FormatCount(std::llround(last.tokens / last.seconds));
}

// Smallest multiple of `unit` that is not below the loss.
double RoundUp(double loss, double unit) {
  return std::ceil(loss / unit - 1e-9) * unit;
}

}  // namespace

std::vector<double> SmoothedLosses(std::span<const MetricsRow> rows,
                                   int window) {
  std::vector<double> means;
  means.reserve(rows.size());
  for (size_t t = 0; t < rows.size(); ++t) {
    const size_t count = std::min<size_t>(t + 1, window);
    double sum = 0;
    for (size_t i = t + 1 - count; i <= t; ++i) sum += rows[i].loss;
    means.push_back(sum / static_cast<double>(count));
  }
  return means;
}

double FinalLoss(std::span<const MetricsRow> rows) {
  return SmoothedLosses(rows, kLossWindow).back();
}

std::string LossWindowText(std::span<const RunRecord> runs) {
  size_t window = 0;
  for (const RunRecord& run : runs) window = std::max(window, run.rows.size());
  window = std::min<size_t>(window, kLossWindow);
  std::vector<std::string> shorter;
  for (const RunRecord& run : runs) {
    if (run.rows.size() >= window) continue;
    shorter.push_back(absl::StrCat(run.label, ": all its ", run.rows.size()));
  }
  return absl::StrCat(
      window, window == 1 ? " update" : " updates",
      shorter.empty() ? ""
                      : absl::StrCat(" (", absl::StrJoin(shorter, ", "), ")"));
}

std::optional<int64_t> StepsToLoss(std::span<const MetricsRow> rows,
                                   double target) {
  const std::vector<double> means = SmoothedLosses(rows, kLossWindow);
  const size_t first = std::min<size_t>(kLossWindow, rows.size()) - 1;
  for (size_t t = first; t < means.size(); ++t) {
    if (means[t] <= target) return rows[t].step;
  }
  return std::nullopt;
}

std::vector<double> DefaultTargets(std::span<const RunRecord> runs) {
  double worst = 0, best = INFINITY;
  for (const RunRecord& run : runs) {
    const double loss = FinalLoss(run);
    worst = std::max(worst, loss);
    best = std::min(best, loss);
  }
  const double unit = worst - best < 0.3 ? 0.01 : 0.1;
  std::vector<double> targets = {RoundUp(worst, unit),
                                 RoundUp((worst + best) / 2, unit),
                                 RoundUp(best, unit)};
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

std::string ComparisonTable(std::span<const RunRecord> runs,
                            std::span<const double> targets) {
  std::vector<std::string> header = {
      "run", "method", "P", "schedule", "updates", "final loss", "valid loss"};
  for (const double target : targets) {
    header.push_back(absl::StrFormat("to %g", target));
    header.push_back("slow-down");
  }
  header.push_back("tokens/s");
  TextTable table(header);
  for (const RunRecord& run : runs) {
    std::vector<std::string> cells = {run.label,
                                      run.method,
                                      absl::StrCat(run.stages),
                                      run.schedule,
                                      absl::StrCat(run.rows.size()),
                                      absl::StrFormat("%.4f", FinalLoss(run)),
                                      LastValidLoss(run)};
    for (const double target : targets) {
      const std::optional<int64_t> steps = StepsToLoss(run.rows, target);
      const std::optional<int64_t> first =
          StepsToLoss(runs.front().rows, target);
      cells.push_back(steps ? absl::StrCat(*steps) : "-");
      cells.push_back(
          steps && first
              ? absl::StrFormat("%.2f", static_cast<double>(*steps) / *first)
              : "-");
    }
    cells.push_back(TokensPerSecond(run));
    table.AddRow(cells);
  }
  return table.ToString();
}

}  // namespace gimbal::cli

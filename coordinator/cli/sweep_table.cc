#include "coordinator/cli/sweep_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/comparison.h"

namespace gimbal::cli {
namespace {

// Runs of one method, stage count and learning rate.
struct Cell {
  std::string lr;
  std::vector<const RunRecord*> runs;

  double mean_final_loss() const {
    double sum = 0;
    for (const RunRecord* run : runs) sum += FinalLoss(run->rows);
    return sum / static_cast<double>(runs.size());
  }
};

std::optional<double> MeanSteps(const Cell& cell, double target) {
  double sum = 0;
  for (const RunRecord* run : cell.runs) {
    const std::optional<int64_t> steps = StepsToLoss(run->rows, target);
    if (!steps) return std::nullopt;
    sum += static_cast<double>(*steps);
  }
  return sum / static_cast<double>(cell.runs.size());
}

std::vector<double> MeanLosses(const Cell& cell) {
  size_t shortest = cell.runs.front()->rows.size();
  for (const RunRecord* run : cell.runs) {
    shortest = std::min(shortest, run->rows.size());
  }
  std::vector<double> mean(shortest);
  for (const RunRecord* run : cell.runs) {
    const std::vector<double> losses = SmoothedLosses(run->rows, kLossWindow);
    for (size_t t = 0; t < shortest; ++t) {
      mean[t] += losses[t] / static_cast<double>(cell.runs.size());
    }
  }
  return mean;
}

SweepGroup GroupOf(const std::string& method, int stages, const Cell& cell,
                   const std::vector<double>& targets) {
  SweepGroup group{.method = method,
                   .stages = stages,
                   .lr = cell.lr,
                   .seeds = static_cast<int>(cell.runs.size()),
                   .final_loss = cell.mean_final_loss(),
                   .losses = MeanLosses(cell)};
  double low = INFINITY, high = -INFINITY, seconds = 0, updates = 0;
  for (const RunRecord* run : cell.runs) {
    low = std::min(low, FinalLoss(run->rows));
    high = std::max(high, FinalLoss(run->rows));
    seconds += run->rows.back().seconds;
    updates += static_cast<double>(run->rows.size());
  }
  group.final_loss_spread = high - low;
  group.seconds_per_update = seconds / updates;
  for (const double target : targets) {
    group.steps.push_back(MeanSteps(cell, target));
  }
  return group;
}

std::optional<double> Ratio(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return std::nullopt;
  return *a / *b;
}

void FillSlowdowns(const std::string& baseline,
                   std::vector<SweepGroup>* groups) {
  int fewest = groups->empty() ? 1 : groups->front().stages;
  for (const SweepGroup& group : *groups) {
    fewest = std::min(fewest, group.stages);
  }
  const auto find = [&](const std::string& method) -> const SweepGroup* {
    for (const SweepGroup& group : *groups) {
      if (group.method == method && group.stages == fewest) return &group;
    }
    return nullptr;
  };
  for (SweepGroup& group : *groups) {
    const SweepGroup* self = find(group.method);
    const SweepGroup* base = find(baseline);
    for (size_t i = 0; i < group.steps.size(); ++i) {
      group.slowdown_self.push_back(self ? Ratio(group.steps[i], self->steps[i])
                                         : std::nullopt);
      group.slowdown_baseline.push_back(
          base ? Ratio(group.steps[i], base->steps[i]) : std::nullopt);
    }
  }
}

std::string Number(std::optional<double> value, const char* format) {
  if (!value) return "-";
  return format[2] == '0' ? absl::StrFormat("%.0f", *value)
                          : absl::StrFormat("%.2f", *value);
}

}  // namespace

std::vector<SweepGroup> GroupsOf(const SweepSpec& spec,
                                 const SweepRecords& records,
                                 const std::vector<double>& targets) {
  std::vector<SweepGroup> groups;
  for (const SweepMethod& method : spec.methods) {
    for (const int stages : method.stages) {
      Cell cell{.lr = BestLr(spec, method, stages, records)};
      for (const std::string& seed : spec.seeds) {
        const auto record =
            records.find(RunName(method.name, stages, cell.lr, seed));
        if (record != records.end()) cell.runs.push_back(&record->second);
      }
      if (cell.runs.empty()) continue;
      groups.push_back(GroupOf(method.name, stages, cell, targets));
    }
  }
  FillSlowdowns(spec.baseline, &groups);
  return groups;
}

std::vector<double> TargetsOf(const SweepSpec& spec,
                              const SweepRecords& records) {
  if (!spec.targets.empty() || records.empty()) return spec.targets;
  std::vector<RunRecord> runs;
  for (const auto& [name, record] : records) runs.push_back(record);
  return DefaultTargets(runs);
}

std::string RunsCsv(const SweepSpec& spec, const SweepRecords& records,
                    const std::vector<double>& targets) {
  std::string csv =
      "run,method,stages,lr,seed,updates,final_loss,valid_loss,"
      "seconds";
  for (const double target : targets) {
    absl::StrAppend(&csv, ",updates_to_", target);
  }
  csv += "\n";
  for (const SweepRun& run : RunsOf(spec)) {
    const auto found = records.find(run.name);
    if (found == records.end()) continue;
    const RunRecord& record = found->second;
    std::string valid;
    for (const MetricsRow& row : record.rows) {
      if (row.valid_loss) valid = absl::StrFormat("%.6f", *row.valid_loss);
    }
    absl::StrAppendFormat(&csv, "%s,%s,%d,%s,%s,%d,%.6f,%s,%.1f", run.name,
                          run.method, run.stages, run.lr, run.seed,
                          record.rows.size(), FinalLoss(record.rows), valid,
                          record.rows.back().seconds);
    for (const double target : targets) {
      const std::optional<int64_t> steps = StepsToLoss(record.rows, target);
      absl::StrAppend(&csv, ",", steps ? absl::StrCat(*steps) : "");
    }
    csv += "\n";
  }
  return csv;
}

std::string GroupsMarkdown(const std::vector<SweepGroup>& groups,
                           const std::vector<double>& targets,
                           const std::string& baseline) {
  std::string text = "| method | P | best lr | seeds | final loss | spread |";
  std::string line = "|---|---|---|---|---|---|";
  for (const double target : targets) {
    absl::StrAppend(&text, " to ", target, " | / own | / ", baseline, " |");
    line += "---|---|---|";
  }
  text += " ms/update |\n" + line + "---|\n";
  for (const SweepGroup& group : groups) {
    absl::StrAppendFormat(&text, "| %s | %d | %s | %d | %.3f | %.3f |",
                          group.method, group.stages, group.lr, group.seeds,
                          group.final_loss, group.final_loss_spread);
    for (size_t i = 0; i < targets.size(); ++i) {
      absl::StrAppend(&text, " ", Number(group.steps[i], "%.0f"), " | ",
                      Number(group.slowdown_self[i], "%.2f"), " | ",
                      Number(group.slowdown_baseline[i], "%.2f"), " |");
    }
    absl::StrAppendFormat(&text, " %.1f |\n", group.seconds_per_update * 1e3);
  }
  return text;
}

}  // namespace gimbal::cli

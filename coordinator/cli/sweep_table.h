// What the runs of a sweep say together. Pure.
//
// A group is a method at a stage count. Every number of it is taken at its best
// learning rate (BestLr). Updates to a loss are means over the seeds, and
// missing when one seed never reached it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/cli/run_record.h"
#include "coordinator/cli/sweep_spec.h"
#include "coordinator/cli/sweep_tuning.h"

namespace gimbal::cli {

struct SweepGroup {
  std::string method;
  int stages = 1;
  std::string lr;  // the best
  int seeds = 0;   // runs behind the numbers
  double final_loss = 0;
  double final_loss_spread = 0;  // largest minus smallest over the seeds
  std::vector<std::optional<double>> steps;  // to each target
  // Those updates over the ones of the same method, and of the baseline, at the
  // smallest stage count of the sweep.
  std::vector<std::optional<double>> slowdown_self;
  std::vector<std::optional<double>> slowdown_baseline;
  double seconds_per_update = 0;
  std::vector<double> losses;  // smoothed, mean over the seeds
};

std::vector<SweepGroup> GroupsOf(const SweepSpec& spec,
                                 const SweepRecords& records,
                                 const std::vector<double>& targets);

// Losses worth asking for when the sweep names none.
std::vector<double> TargetsOf(const SweepSpec& spec,
                              const SweepRecords& records);

// One line per run of the grid, and one per group.
std::string RunsCsv(const SweepSpec& spec, const SweepRecords& records,
                    const std::vector<double>& targets);
std::string GroupsMarkdown(const std::vector<SweepGroup>& groups,
                           const std::vector<double>& targets,
                           const std::string& baseline);

}  // namespace gimbal::cli

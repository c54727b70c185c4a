// Learning rates of a sweep: which is best, and which runs are still wanted to
// know it. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cli/run_record.h"
#include "coordinator/cli/sweep_spec.h"

namespace gimbal::cli {

// By name of the run; runs that are missing or not finished are left out.
using SweepRecords = std::map<std::string, RunRecord>;

// The learning rate with the lowest final loss: the mean over the seeds, or,
// when the sweep climbs, that of the first seed. "" when no run is there.
std::string BestLr(const SweepSpec& spec, const SweepMethod& method, int stages,
                   const SweepRecords& records);

// The runs to do as far as the records tell, in the order of RunsOf and those
// on record included. A run in `failed` counts as done and as the worst.
//
// With `tuning: climb` a method at a stage count begins with the middle of its
// grid and its two neighbours, moves on to the best while that has a neighbour
// not tried, and runs the other seeds there only.
std::vector<SweepRun> WantedRuns(const SweepSpec& spec,
                                 const SweepRecords& records,
                                 const std::set<std::string>& failed);

}  // namespace gimbal::cli

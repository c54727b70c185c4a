#include "coordinator/cli/sweep_tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "coordinator/cli/comparison.h"

namespace gimbal::cli {
namespace {

// INFINITY when no run with this learning rate counts.
double MeanFinalLoss(const SweepSpec& spec, const SweepMethod& method,
                     int stages, const std::string& lr,
                     const SweepRecords& records) {
  double sum = 0;
  int runs = 0;
  const size_t seeds = spec.climb ? 1 : spec.seeds.size();
  for (size_t i = 0; i < seeds; ++i) {
    const auto record =
        records.find(RunName(method.name, stages, lr, spec.seeds[i]));
    if (record == records.end()) continue;
    sum += FinalLoss(record->second.rows);
    ++runs;
  }
  return runs == 0 ? INFINITY : sum / runs;
}

// The learning rates of the first seed, and the one the others take, or ""
// while it is not known.
struct Climb {
  std::set<std::string> tried;
  std::string top;
};

Climb ClimbOf(const SweepSpec& spec, const SweepMethod& method, int stages,
              const SweepRecords& records,
              const std::set<std::string>& failed) {
  std::vector<std::string> lrs = method.lrs;
  std::ranges::sort(lrs, {}, [](const std::string& lr) {
    return std::strtod(lr.c_str(), nullptr);
  });
  const size_t last = lrs.size() - 1;
  size_t best = lrs.size() / 2;
  Climb climb;
  while (true) {
    const size_t low = best == 0 ? 0 : best - 1;
    const size_t high = std::min(best + 1, last);
    bool done = true;
    double least = INFINITY;
    size_t next = best;
    for (size_t i = low; i <= high; ++i) {
      climb.tried.insert(lrs[i]);
      const std::string name =
          RunName(method.name, stages, lrs[i], spec.seeds.front());
      done = done && (records.contains(name) || failed.contains(name));
      const double loss = MeanFinalLoss(spec, method, stages, lrs[i], records);
      if (loss < least) {
        least = loss;
        next = i;
      }
    }
    if (!done) return climb;
    if (next == best) {
      climb.top = lrs[best];
      return climb;
    }
    best = next;
  }
}

}  // namespace

std::string BestLr(const SweepSpec& spec, const SweepMethod& method, int stages,
                   const SweepRecords& records) {
  std::string best;
  double least = INFINITY;
  for (const std::string& lr : method.lrs) {
    const double loss = MeanFinalLoss(spec, method, stages, lr, records);
    if (!(loss < least)) continue;  // NaN is no candidate
    least = loss;
    best = lr;
  }
  return best;
}

std::vector<SweepRun> WantedRuns(const SweepSpec& spec,
                                 const SweepRecords& records,
                                 const std::set<std::string>& failed) {
  std::vector<SweepRun> runs = RunsOf(spec);
  if (!spec.climb) return runs;
  std::set<std::string> wanted;
  for (const SweepMethod& method : spec.methods) {
    for (const int stages : method.stages) {
      const Climb climb = ClimbOf(spec, method, stages, records, failed);
      for (const std::string& lr : climb.tried) {
        wanted.insert(RunName(method.name, stages, lr, spec.seeds.front()));
      }
      if (climb.top.empty()) continue;
      for (const std::string& seed : spec.seeds) {
        wanted.insert(RunName(method.name, stages, climb.top, seed));
      }
    }
  }
  std::erase_if(
      runs, [&](const SweepRun& run) { return !wanted.contains(run.name); });
  return runs;
}

}  // namespace gimbal::cli

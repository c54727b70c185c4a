#include "coordinator/cli/trace_clocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace gimbal::cli {
namespace {

using trace::ClockLine;
using trace::ClockSample;

// The samples of one process against one coordinator.
struct Measured {
  ClockLine line;
  int64_t first_ns = 0, last_ns = 0;  // on the process's clock
};

using ByCoordinator = std::map<int64_t, Measured>;

ByCoordinator Measure(const std::vector<ClockSample>& samples) {
  std::map<int64_t, std::vector<ClockSample>> apart;
  for (const ClockSample& sample : samples) {
    apart[sample.clock].push_back(sample);
  }
  ByCoordinator measured;
  for (auto& [coordinator, of_it] : apart) {
    std::ranges::stable_sort(of_it, {}, &ClockSample::at_ns);
    measured[coordinator] = {trace::FitClock(of_it), of_it.front().at_ns,
                             of_it.back().at_ns};
  }
  return measured;
}

// What to add to the clock of `from` for that of `to`, both as one process
// measured them. Exact between the samples of the one and those of the other:
// where it went over.
ClockLine LinkOf(const Measured& from, const Measured& to) {
  const int64_t at = std::max(from.first_ns, to.first_ns) / 2 +
                     std::min(from.last_ns, to.last_ns) / 2;
  return {.at_ns = at + from.line.OffsetAt(at),
          .offset_ns = to.line.OffsetAt(at) - from.line.OffsetAt(at),
          .drift = to.line.drift - from.line.drift,
          .uncertainty_ns = from.line.uncertainty_ns + to.line.uncertainty_ns};
}

// One clock after the other.
ClockLine Join(const ClockLine& first, const ClockLine& second) {
  return {.at_ns = first.at_ns,
          .offset_ns =
              first.offset_ns + second.OffsetAt(first.at_ns + first.offset_ns),
          .drift = first.drift + second.drift,
          .uncertainty_ns = first.uncertainty_ns + second.uncertainty_ns};
}

// From each coordinator's clock to that of `root`, by way of the links that are
// known best; of those that lead there.
std::map<int64_t, ClockLine> LinesTo(
    int64_t root, const std::vector<ByCoordinator>& processes) {
  std::map<int64_t, ClockLine> lines = {{root, {.uncertainty_ns = 0}}};
  for (bool better = true; better;) {
    better = false;
    for (const ByCoordinator& measured : processes) {
      for (const auto& [from, from_it] : measured) {
        for (const auto& [to, to_it] : measured) {
          if (from == to || !lines.contains(to)) continue;
          const ClockLine line = Join(LinkOf(from_it, to_it), lines.at(to));
          const auto known = lines.find(from);
          if (known != lines.end() &&
              known->second.uncertainty_ns <= line.uncertainty_ns) {
            continue;
          }
          lines[from] = line;
          better = true;
        }
      }
    }
  }
  return lines;
}

// Of those that have no line yet, the one that most processes have measured.
std::optional<int64_t> NextRoot(const std::vector<ByCoordinator>& processes,
                                const std::map<int64_t, ClockLine>& placed) {
  std::map<int64_t, int> measured_by;
  for (const ByCoordinator& measured : processes) {
    for (const auto& [coordinator, of_it] : measured) {
      if (!placed.contains(coordinator)) ++measured_by[coordinator];
    }
  }
  const auto most = std::ranges::max_element(
      measured_by, {}, [](const auto& entry) { return entry.second; });
  if (most == measured_by.end()) return std::nullopt;
  return most->first;
}

// The process's own line, from all of its samples as the root would have
// answered.
ClockLine FitAll(std::vector<ClockSample> samples,
                 const std::map<int64_t, ClockLine>& lines) {
  for (ClockSample& sample : samples) {
    const ClockLine& line = lines.at(sample.clock);
    sample.offset_ns += line.OffsetAt(sample.at_ns + sample.offset_ns);
    sample.uncertainty_ns += line.uncertainty_ns;
  }
  std::ranges::stable_sort(samples, {}, &ClockSample::at_ns);
  return trace::FitClock(samples);
}

// By size, 0: the largest.
void NumberGroups(std::vector<ProcessClock>& clocks) {
  std::map<int, int> sizes;
  for (const ProcessClock& clock : clocks) ++sizes[clock.group];
  std::vector<std::pair<int, int>> order;  // -size, group
  for (const auto& [group, size] : sizes) order.emplace_back(-size, group);
  std::ranges::sort(order);
  std::map<int, int> number;
  for (const auto& [size, group] : order) {
    number.emplace(group, static_cast<int>(number.size()));
  }
  for (ProcessClock& clock : clocks) clock.group = number.at(clock.group);
}

}  // namespace

std::vector<ProcessClock> SetClocks(
    const std::vector<std::vector<ClockSample>>& samples_by_process) {
  std::vector<ByCoordinator> processes;
  for (const auto& samples : samples_by_process) {
    processes.push_back(Measure(samples));
  }
  std::map<int64_t, ClockLine> placed;
  std::map<int64_t, int> group_of;
  int groups = 0;
  while (const auto root = NextRoot(processes, placed)) {
    for (const auto& [coordinator, line] : LinesTo(*root, processes)) {
      placed[coordinator] = line;
      group_of[coordinator] = groups;
    }
    ++groups;
  }
  std::vector<ProcessClock> clocks;
  for (const auto& samples : samples_by_process) {
    // One that was never measured is a group of its own.
    clocks.push_back({.line = FitAll(samples, placed),
                      .group = samples.empty()
                                   ? groups++
                                   : group_of.at(samples.front().clock)});
  }
  NumberGroups(clocks);
  return clocks;
}

}  // namespace gimbal::cli

#include "coordinator/cli/trace_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "coordinator/cli/trace_stretch.h"

namespace gimbal::cli {
namespace {

using trace::Span;

void Move(ProcessTrace& process, int64_t ns) {
  for (Span& span : process.spans) {
    span.begin_ns += ns;
    span.end_ns += ns;
  }
  process.correction_ns += ns;
}

// Shortest travel of the messages from one process to another.
using Shortest = std::map<std::pair<size_t, size_t>, int64_t>;

Shortest ShortestTravels(const MergedTrace& trace) {
  Shortest shortest;
  for (const Flow& flow : trace.flows) {
    if (flow.from_process == flow.to_process) continue;
    const auto [it, added] =
        shortest.try_emplace({flow.from_process, flow.to_process},
                             std::numeric_limits<int64_t>::max());
    it->second = std::min(it->second, TravelNs(trace, flow));
  }
  return shortest;
}

// Shortest travels between a group and those that have their place already.
struct Exchange {
  int64_t to_group_ns = std::numeric_limits<int64_t>::max();
  int64_t from_group_ns = std::numeric_limits<int64_t>::max();
  bool both_ways() const {
    return to_group_ns != std::numeric_limits<int64_t>::max() &&
           from_group_ns != std::numeric_limits<int64_t>::max();
  }
};

// By group.
std::map<int, Exchange> Exchanges(const MergedTrace& trace,
                                  const std::set<int>& placed) {
  std::map<int, Exchange> exchanges;
  for (const auto& [pair, travel] : ShortestTravels(trace)) {
    const int from = trace.processes[pair.first].clock.group;
    const int to = trace.processes[pair.second].clock.group;
    if (placed.contains(from) == placed.contains(to)) continue;
    int64_t& shortest = placed.contains(from) ? exchanges[to].to_group_ns
                                              : exchanges[from].from_group_ns;
    shortest = std::min(shortest, travel);
  }
  return exchanges;
}

// As an answer tells of a clock (trace::MeasureClock): where both ways take
// equally long, with half of the round as doubt.
void PlaceGroups(MergedTrace& trace) {
  std::set<int> placed = {0};
  for (;;) {
    const std::map<int, Exchange> exchanges = Exchanges(trace, placed);
    const auto next = std::ranges::find_if(
        exchanges, [](const auto& entry) { return entry.second.both_ways(); });
    if (next == exchanges.end()) return;
    const auto& [group, exchange] = *next;
    for (ProcessTrace& process : trace.processes) {
      if (process.clock.group != group) continue;
      Move(process, (exchange.from_group_ns - exchange.to_group_ns) / 2);
      process.doubt_ns = std::max<int64_t>(
          (exchange.to_group_ns + exchange.from_group_ns) / 2, 0);
    }
    placed.insert(group);
  }
}

// The smallest delays of the processes with which no message travels back in
// time, found as longest paths; when there are none, after as many rounds as
// there are processes it is as good as it gets.
void CorrectClocks(MergedTrace& trace) {
  const Shortest shortest = ShortestTravels(trace);
  std::vector<int64_t> delay(trace.processes.size(), 0);
  for (size_t round = 0; round < trace.processes.size(); ++round) {
    for (const auto& [pair, travel] : shortest) {
      const auto [from, to] = pair;
      delay[to] = std::max(delay[to], delay[from] - travel);
    }
  }
  for (size_t p = 0; p < trace.processes.size(); ++p) {
    Move(trace.processes[p], delay[p]);
  }
}

}  // namespace

void OrderByMessages(MergedTrace& trace) {
  PlaceGroups(trace);
  CorrectClocks(trace);
  StretchReversed(trace);
}

}  // namespace gimbal::cli

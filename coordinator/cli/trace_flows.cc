#include "coordinator/cli/trace_flows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace gimbal::cli {
namespace {

using trace::Span;
using trace::SpanKind;

// What a message is, whoever sends it.
using MessageKey = std::tuple<int, uint8_t, int64_t, int>;

MessageKey KeyOf(const Span& span) {
  // Each kind of message goes one way only.
  return {span.edge, span.message, span.index, span.part};
}

struct End {
  size_t process = 0, span = 0;
  int64_t at_ns = 0;
};

// How well a send goes with a receive: the least one does best. Nothing when it
// cannot be. `late`: how far the send stands after the receive.
//
// A message may have been sent by a stage that was lost and by its successor:
// the newest send is meant that can have been before the receive, as far as
// clocks are known. Else the first one after it, unless that is further than
// clocks drift. Of clocks that are not known against each other, which are of
// another session most likely, the order is all there is to go by.
std::optional<std::pair<int, int64_t>> RankOf(const ProcessTrace& from,
                                              const ProcessTrace& to,
                                              int64_t late) {
  constexpr int64_t kDriftNs = 100'000'000;
  if (from.clock.group != to.clock.group) {
    return late <= 0 ? std::pair(2, -late) : std::pair(3, late);
  }
  const int64_t open = std::max<int64_t>(from.clock.line.uncertainty_ns, 0) +
                       std::max<int64_t>(to.clock.line.uncertainty_ns, 0);
  if (late <= open) return std::pair(0, -late);
  if (late <= open + kDriftNs) return std::pair(1, late);
  return std::nullopt;
}

// Null: the receive is of a send that was not recorded.
const End* SendOf(const std::vector<End>& sends,
                  const std::vector<ProcessTrace>& processes,
                  const ProcessTrace& to, int64_t received_ns) {
  const End* best = nullptr;
  std::pair<int, int64_t> best_rank;
  for (const End& send : sends) {
    const auto rank =
        RankOf(processes[send.process], to, send.at_ns - received_ns);
    if (!rank || (best != nullptr && *rank >= best_rank)) continue;
    best = &send;
    best_rank = *rank;
  }
  return best;
}

}  // namespace

std::vector<Flow> FindFlows(const std::vector<ProcessTrace>& processes) {
  std::map<MessageKey, std::vector<End>> sends;
  for (size_t p = 0; p < processes.size(); ++p) {
    for (size_t s = 0; s < processes[p].spans.size(); ++s) {
      const Span& span = processes[p].spans[s];
      if (span.kind != SpanKind::kSend) continue;
      sends[KeyOf(span)].push_back({p, s, span.begin_ns});
    }
  }
  std::vector<Flow> flows;
  for (size_t p = 0; p < processes.size(); ++p) {
    for (size_t s = 0; s < processes[p].spans.size(); ++s) {
      const Span& span = processes[p].spans[s];
      if (span.kind != SpanKind::kRecv) continue;
      const auto found = sends.find(KeyOf(span));
      if (found == sends.end()) continue;
      const End* send =
          SendOf(found->second, processes, processes[p], span.begin_ns);
      if (send == nullptr) continue;
      flows.push_back({send->process, send->span, p, s});
    }
  }
  return flows;
}

}  // namespace gimbal::cli

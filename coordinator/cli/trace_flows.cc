#include "coordinator/cli/trace_flows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

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

constexpr int64_t kAnyNs = std::numeric_limits<int64_t>::max() / 4;

// How far a receive may stand before its send because of what is not known of
// their clocks.
int64_t LeftOpenNs(const ProcessTrace& from, const ProcessTrace& to) {
  if (from.clock.group != to.clock.group) return kAnyNs;
  return std::max<int64_t>(from.clock.line.uncertainty_ns, 0) +
         std::max<int64_t>(to.clock.line.uncertainty_ns, 0);
}

// A message may have been sent by a stage that was lost and by its successor:
// the newest send is meant that can have been before the receive. When all seem
// to be after it the first one, unless that is further than clocks drift: then
// the receive is of a send that was not recorded.
const End* SendOf(const std::vector<End>& sends,
                  const std::vector<ProcessTrace>& processes,
                  const ProcessTrace& to, int64_t received_ns) {
  constexpr int64_t kDriftNs = 100'000'000;
  const End* newest = nullptr;
  const End* first = nullptr;
  for (const End& send : sends) {
    const int64_t open = LeftOpenNs(processes[send.process], to);
    const int64_t late = send.at_ns - received_ns;
    // Of clocks that are not known against each other the order is all there is
    // to go by.
    if (late <= (open == kAnyNs ? 0 : open)) {
      if (newest == nullptr || send.at_ns > newest->at_ns) newest = &send;
    } else if (late <= open + kDriftNs) {
      if (first == nullptr || send.at_ns < first->at_ns) first = &send;
    }
  }
  return newest != nullptr ? newest : first;
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

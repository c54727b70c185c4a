#include "coordinator/cli/trace_merge.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace gimbal::cli {
namespace {

using trace::Span;
using trace::SpanKind;

using Process = std::pair<std::string, int64_t>;  // worker, pid

std::vector<ProcessTrace> ByProcess(std::vector<trace::TraceContent> files) {
  std::map<Process, ProcessTrace> processes;
  std::map<Process, std::vector<trace::ClockSample>> samples;
  for (trace::TraceContent& file : files) {
    const Process key = {file.header.worker, file.header.pid};
    ProcessTrace& process = processes[key];
    process.header = file.header;
    for (const Span& span : file.spans) {
      if (span.kind == SpanKind::kClock) {
        samples[key].push_back({span.begin_ns, span.end_ns, span.index});
      } else if (span.kind == SpanKind::kLost) {
        process.lost += span.index;
      } else {
        process.spans.push_back(span);
      }
    }
  }
  std::vector<ProcessTrace> result;
  for (auto& [key, process] : processes) {
    process.clock = trace::FitClock(samples[key]);
    for (Span& span : process.spans) {
      const int64_t offset = process.clock.OffsetAt(span.begin_ns);
      span.begin_ns += offset;
      span.end_ns += offset;
    }
    // Outer spans ahead of those within them.
    std::ranges::stable_sort(process.spans, {}, [](const Span& span) {
      return std::tuple(span.stage, span.begin_ns, -span.end_ns);
    });
    result.push_back(std::move(process));
  }
  return result;
}

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

// The newest send of the message that is not later, else the first one. A
// message may have been sent by a stage that was lost and by its successor.
const End& SendOf(const std::vector<End>& sends, int64_t received_ns) {
  const End* chosen = &sends.front();
  for (const End& send : sends) {
    if (send.at_ns <= received_ns && send.at_ns > chosen->at_ns) chosen = &send;
    if (chosen->at_ns > received_ns && send.at_ns < chosen->at_ns) {
      chosen = &send;
    }
  }
  return *chosen;
}

// False when the receive stands further before the send than clocks can be
// wrong: then it is of another send, which was not recorded.
bool CanBe(const ProcessTrace& from, const End& send, const ProcessTrace& to,
           const Span& receive) {
  constexpr int64_t kDriftNs = 100'000'000;
  if (from.clock.uncertainty_ns < 0 || to.clock.uncertainty_ns < 0) return true;
  return send.at_ns - receive.begin_ns <=
         from.clock.uncertainty_ns + to.clock.uncertainty_ns + kDriftNs;
}

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
      const End& send = SendOf(found->second, span.begin_ns);
      if (!CanBe(processes[send.process], send, processes[p], span)) continue;
      flows.push_back({send.process, send.span, p, s});
    }
  }
  return flows;
}

int64_t TravelNs(const MergedTrace& trace, const Flow& flow) {
  return trace.processes[flow.to_process].spans[flow.to_span].begin_ns -
         trace.processes[flow.from_process].spans[flow.from_span].begin_ns;
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
    trace.processes[p].correction_ns = delay[p];
    for (Span& span : trace.processes[p].spans) {
      span.begin_ns += delay[p];
      span.end_ns += delay[p];
    }
  }
}

void CountReversed(MergedTrace& trace) {
  for (const Flow& flow : trace.flows) {
    const int64_t travel = TravelNs(trace, flow);
    if (travel >= 0) continue;
    ++trace.reversed;
    trace.reversed_by_ns = std::max(trace.reversed_by_ns, -travel);
  }
}

}  // namespace

MergedTrace MergeTraces(std::vector<trace::TraceContent> files) {
  MergedTrace trace;
  trace.processes = ByProcess(std::move(files));
  trace.flows = FindFlows(trace.processes);
  CorrectClocks(trace);
  CountReversed(trace);
  return trace;
}

std::map<int, std::map<std::string, double>> SecondsByStage(
    const MergedTrace& trace) {
  std::map<int, std::map<std::string, double>> seconds;
  for (const ProcessTrace& process : trace.processes) {
    const Span* outer = nullptr;
    for (const Span& span : process.spans) {
      auto& stage = seconds[span.stage];
      const double length =
          static_cast<double>(span.end_ns - span.begin_ns) / 1e9;
      stage[trace::SpanName(span.kind)] += length;
      const bool within = outer != nullptr && outer->stage == span.stage &&
                          span.begin_ns < outer->end_ns;
      if (within) {
        stage[trace::SpanName(outer->kind)] -= length;
      } else {
        outer = &span;
      }
    }
  }
  return seconds;
}

}  // namespace gimbal::cli

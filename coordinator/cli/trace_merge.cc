#include "coordinator/cli/trace_merge.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "coordinator/cli/trace_flows.h"
#include "coordinator/cli/trace_order.h"

namespace gimbal::cli {
namespace {

using trace::Span;
using trace::SpanKind;

// Worker, pid, clock.
using Process = std::tuple<std::string, int64_t, int64_t>;
using Samples = std::vector<trace::ClockSample>;

// Sorts what is in a file into its process.
void AddFile(trace::TraceContent file, ProcessTrace& process,
             Samples& samples) {
  process.header = std::move(file.header);
  int64_t clock = 0;
  for (const Span& span : file.spans) {
    if (span.kind == SpanKind::kClockOf) {
      clock = span.index;
    } else if (span.kind == SpanKind::kClock) {
      samples.push_back({span.begin_ns, span.end_ns, span.index, clock});
    } else if (span.kind == SpanKind::kLost) {
      process.lost += span.index;
    } else {
      process.spans.push_back(span);
    }
  }
}

void PutOnAxis(ProcessTrace& process) {
  for (Span& span : process.spans) {
    span.begin_ns += process.clock.line.OffsetAt(span.begin_ns);
    span.end_ns += process.clock.line.OffsetAt(span.end_ns);
  }
  // Outer spans ahead of those within them.
  std::ranges::stable_sort(process.spans, {}, [](const Span& span) {
    return std::tuple(span.stage, span.begin_ns, -span.end_ns);
  });
}

std::vector<ProcessTrace> ByProcess(std::vector<trace::TraceContent> files) {
  std::map<Process, size_t> places;
  std::vector<ProcessTrace> processes;
  std::vector<Samples> samples;
  for (trace::TraceContent& file : files) {
    const trace::TraceHeader& header = file.header;
    const auto [it, added] = places.try_emplace(
        {header.worker, header.pid, header.clock}, processes.size());
    if (added) {
      processes.emplace_back();
      samples.emplace_back();
    }
    AddFile(std::move(file), processes[it->second], samples[it->second]);
  }
  const std::vector<ProcessClock> clocks = SetClocks(samples);
  for (size_t p = 0; p < processes.size(); ++p) {
    processes[p].clock = clocks[p];
    PutOnAxis(processes[p]);
  }
  return processes;
}

}  // namespace

MergedTrace MergeTraces(std::vector<trace::TraceContent> files) {
  MergedTrace trace;
  trace.processes = ByProcess(std::move(files));
  trace.flows = FindFlows(trace.processes);
  OrderByMessages(trace);
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

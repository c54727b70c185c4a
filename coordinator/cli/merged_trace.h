// Traces of several processes on one time axis, the coordinator's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/trace/trace_file.h"
#include "coordinator/cli/trace_clocks.h"

namespace gimbal::cli {

// All that one process recorded.
struct ProcessTrace {
  trace::TraceHeader header;
  std::vector<trace::Span> spans;  // on the axis once merged
  ProcessClock clock;
  int64_t correction_ns = 0;  // by messages, on top of the clock's offset
  // Of a process outside group 0, what messages leave open of its place against
  // that group; negative: everything.
  int64_t doubt_ns = -1;
  int64_t lost = 0;  // spans that were not recorded in time
};

// A message with both of its ends.
struct Flow {
  // Indices: process, span.
  size_t from_process = 0, from_span = 0;
  size_t to_process = 0, to_span = 0;
};

struct MergedTrace {
  std::vector<ProcessTrace> processes;
  std::vector<Flow> flows;  // none is received before it was sent
  // Messages that no constant correction brings in order: the axis of their
  // receivers was stretched there, by so much at most.
  int64_t stretches = 0;
  int64_t stretched_ns = 0;
  // Messages that contradict the order of others, and have no flow.
  int64_t contradictions = 0;
};

// How long the message was on its way.
inline int64_t TravelNs(const MergedTrace& trace, const Flow& flow) {
  return trace.processes[flow.to_process].spans[flow.to_span].begin_ns -
         trace.processes[flow.from_process].spans[flow.from_span].begin_ns;
}

}  // namespace gimbal::cli

// Traces of several processes on one time axis, the coordinator's.
//
// The offset of each process's clock comes from its clock samples. It is known
// to a fraction of a millisecond only, messages are faster: so the offsets are
// corrected by as little as it takes for every message to be received after it
// was sent. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/trace/clock_line.h"
#include "common/trace/trace_file.h"

namespace gimbal::cli {

// All that one process recorded.
struct ProcessTrace {
  trace::TraceHeader header;
  std::vector<trace::Span> spans;  // in coordinator time once merged
  trace::ClockLine clock;
  int64_t correction_ns = 0;  // by messages, on top of the clock's offset
  int64_t lost = 0;           // spans that were not recorded in time
};

// A message with both of its ends.
struct Flow {
  // Indices: process, span.
  size_t from_process = 0, from_span = 0;
  size_t to_process = 0, to_span = 0;
};

struct MergedTrace {
  std::vector<ProcessTrace> processes;
  std::vector<Flow> flows;
  // Receives that stand before their sends all the same, by at most so much:
  // a clock drifted in a way that no constant makes good.
  int64_t reversed = 0;
  int64_t reversed_by_ns = 0;
};

// Files of the same process become one.
MergedTrace MergeTraces(std::vector<trace::TraceContent> files);

// Seconds of each stage by what they were spent on ("forward", ..., "idle"),
// each moment counted once: a send within a forward is a send.
std::map<int, std::map<std::string, double>> SecondsByStage(
    const MergedTrace& trace);

}  // namespace gimbal::cli

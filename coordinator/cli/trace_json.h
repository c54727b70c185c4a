// A merged trace in the Trace Event Format of Chrome, which Perfetto
// (ui.perfetto.dev) and chrome://tracing open: a process per worker, a thread
// per stage, arrows from each send to its receive. `otherData` has the offsets
// of the clocks and the seconds of each stage by phase.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/cli/merged_trace.h"

namespace gimbal::cli {

// The file is whole or not there.
absl::Status WriteTraceJson(const MergedTrace& trace, const std::string& path);

}  // namespace gimbal::cli

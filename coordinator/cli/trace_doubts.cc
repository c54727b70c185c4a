#include "coordinator/cli/trace_doubts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gimbal::cli {
namespace {

std::string Milliseconds(int64_t ns) {
  return absl::StrFormat("%.3f ms", static_cast<double>(ns) / 1e6);
}

std::string NameOf(const ProcessTrace& process) {
  return absl::StrCat(process.header.worker, " (pid ", process.header.pid, ")");
}

std::string DoubtOfClock(const ProcessTrace& process) {
  const bool measured = process.clock.line.uncertainty_ns >= 0;
  const int64_t doubt = DoubtNs(process);
  return absl::StrCat(
      "the clock of ", NameOf(process),
      measured
          ? " was measured against a coordinator process whose clock no worker "
            "measured along with that of the others; "
          : " was not measured (less than a second was recorded); ",
      doubt >= 0
          ? absl::StrCat("messages give its place in time to within ",
                         Milliseconds(doubt))
          : absl::StrCat("its place in time is what its ",
                         measured ? "coordinator's " : "",
                         "machine took it to be, and may be wrong by any "
                         "amount"));
}

}  // namespace

int64_t DoubtNs(const ProcessTrace& process) {
  const int64_t clock = process.clock.line.uncertainty_ns;
  if (process.clock.group == 0) return clock;
  if (process.doubt_ns < 0) return -1;
  return process.doubt_ns + std::max<int64_t>(clock, 0);
}

std::vector<std::string> DoubtsOf(const MergedTrace& trace) {
  std::vector<std::string> doubts;
  for (const ProcessTrace& process : trace.processes) {
    if (process.clock.group != 0) doubts.push_back(DoubtOfClock(process));
    if (process.lost > 0) {
      doubts.push_back(absl::StrCat(NameOf(process), " lost ", process.lost,
                                    " spans: its disk was slow"));
    }
  }
  if (trace.stretches > 0) {
    doubts.push_back(absl::StrCat(
        "clocks did not go steadily: ", trace.stretches,
        " messages would be received before they were sent, so up to ",
        Milliseconds(trace.stretched_ns), " were put in ahead of them"));
  }
  if (trace.contradictions > 0) {
    doubts.push_back(absl::StrCat(
        trace.contradictions,
        " messages contradict the order of others and have no arrow"));
  }
  return doubts;
}

}  // namespace gimbal::cli

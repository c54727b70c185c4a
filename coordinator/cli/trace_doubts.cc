#include "coordinator/cli/trace_doubts.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gimbal::cli {
namespace {

std::string Milliseconds(int64_t ns) {
  return absl::StrFormat("%.3f ms", static_cast<double>(ns) / 1e6);
}

std::string NameOf(const ProcessTrace& process) {
  return absl::StrCat(process.header.worker, " (pid ", process.header.pid, ")");
}

// Of the processes of one group, which have all the same.
std::string DoubtOfClocks(const std::vector<const ProcessTrace*>& group) {
  const bool one = group.size() == 1;
  const bool measured = group.front()->clock.line.uncertainty_ns >= 0;
  int64_t doubt = 0;
  for (const ProcessTrace* process : group) {
    const int64_t its = DoubtNs(*process);
    doubt = its < 0 || doubt < 0 ? -1 : std::max(doubt, its);
  }
  return absl::StrCat(
      one ? "the clock of " : "the clocks of ",
      absl::StrJoin(group, ", ",
                    [](std::string* to, const ProcessTrace* process) {
                      absl::StrAppend(to, NameOf(*process));
                    }),
      one ? " was" : " were",
      measured ? " measured against another coordinator process than the "
                 "others, and nobody measured both; "
               : " not measured (less than a second was recorded); ",
      doubt >= 0
          ? absl::StrCat("messages give the place in time to within ",
                         Milliseconds(doubt))
          : absl::StrCat("the place in time is what the ",
                         measured ? "coordinator's " : "",
                         "machine took it to be, how far off is not known"));
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
  std::map<int, std::vector<const ProcessTrace*>> groups;
  for (const ProcessTrace& process : trace.processes) {
    if (process.clock.group != 0)
      groups[process.clock.group].push_back(&process);
  }
  for (const auto& [number, group] : groups) {
    doubts.push_back(DoubtOfClocks(group));
  }
  for (const ProcessTrace& process : trace.processes) {
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

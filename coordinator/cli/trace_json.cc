#include "coordinator/cli/trace_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/io/atomic_file.h"
#include "coordinator/cli/trace_doubts.h"
#include "coordinator/cli/trace_merge.h"

namespace gimbal::cli {
namespace {

using nlohmann::ordered_json;
using trace::Span;
using trace::SpanKind;

constexpr size_t kChunkBytes = size_t{1} << 20;

int64_t FirstNs(const MergedTrace& trace) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const ProcessTrace& process : trace.processes) {
    for (const Span& span : process.spans) {
      first = std::min(first, span.begin_ns);
    }
  }
  return first;
}

// Writes events one by one: a trace may be much larger than memory for its
// text.
class EventWriter {
 public:
  EventWriter(const MergedTrace& trace, io::AtomicFile& file)
      : trace_(trace), file_(file), first_ns_(FirstNs(trace)) {}

  absl::Status WriteAll() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (size_t p = 0; p < trace_.processes.size(); ++p) {
      GIMBAL_RETURN_IF_ERROR(WriteNames(p));
      for (const Span& span : trace_.processes[p].spans) {
        GIMBAL_RETURN_IF_ERROR(Add(EventOf(p, span)));
      }
    }
    for (size_t i = 0; i < trace_.flows.size(); ++i) {
      GIMBAL_RETURN_IF_ERROR(WriteFlow(i));
    }
    absl::StrAppend(&text_, "\n],\"otherData\":", OtherData().dump(), "}\n");
    return file_.Append(text_);
  }

 private:
  absl::Status Add(const std::string& event) {
    absl::StrAppend(&text_, any_ ? ",\n" : "\n", event);
    any_ = true;
    if (text_.size() < kChunkBytes) return absl::OkStatus();
    GIMBAL_RETURN_IF_ERROR(file_.Append(text_));
    text_.clear();
    return absl::OkStatus();
  }

  absl::Status WriteNames(size_t p) {
    const ProcessTrace& process = trace_.processes[p];
    std::set<int> stages;
    for (const Span& span : process.spans) stages.insert(span.stage);
    GIMBAL_RETURN_IF_ERROR(AddName(p, 0, "process_name", "name",
                                   absl::StrCat(process.header.worker, " (pid ",
                                                process.header.pid, ")")));
    GIMBAL_RETURN_IF_ERROR(AddName(p, 0, "process_sort_index", "sort_index",
                                   stages.empty() ? 0 : *stages.begin()));
    for (const int stage : stages) {
      GIMBAL_RETURN_IF_ERROR(AddName(p, stage, "thread_name", "name",
                                     absl::StrCat("stage ", stage)));
      GIMBAL_RETURN_IF_ERROR(
          AddName(p, stage, "thread_sort_index", "sort_index", stage));
    }
    return absl::OkStatus();
  }

  absl::Status AddName(size_t p, int stage, const char* what, const char* key,
                       const ordered_json& value) {
    const ordered_json event = {{"ph", "M"},
                                {"name", what},
                                {"pid", p + 1},
                                {"tid", stage},
                                {"args", {{key, value}}}};
    return Add(
        event.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }

  // Microseconds since the first span.
  double Time(int64_t ns) const {
    return static_cast<double>(ns - first_ns_) / 1000;
  }

  std::string EventOf(size_t p, const Span& span) const {
    const char* name = trace::SpanName(span.kind);
    std::string event = absl::StrFormat(
        R"({"ph":"X","name":"%s","cat":"%s","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{"index":%d)",
        name, name, p + 1, span.stage, Time(span.begin_ns),
        static_cast<double>(span.end_ns - span.begin_ns) / 1000, span.index);
    if (span.kind == SpanKind::kSend || span.kind == SpanKind::kRecv) {
      absl::StrAppend(&event, ",\"edge\":", span.edge,
                      ",\"message\":", static_cast<int>(span.message),
                      ",\"part\":", span.part);
    }
    return absl::StrCat(event, "}}");
  }

  absl::Status WriteFlow(size_t i) {
    const Flow& flow = trace_.flows[i];
    GIMBAL_RETURN_IF_ERROR(
        Add(FlowEnd(i, "\"s\"", flow.from_process, flow.from_span)));
    return Add(FlowEnd(i, "\"f\",\"bp\":\"e\"", flow.to_process, flow.to_span));
  }

  std::string FlowEnd(size_t i, const char* phase, size_t p, size_t s) const {
    const Span& span = trace_.processes[p].spans[s];
    return absl::StrFormat(
        R"({"ph":%s,"name":"message","cat":"message","id":%d,"pid":%d,"tid":%d,"ts":%.3f})",
        phase, i + 1, p + 1, span.stage, Time(span.begin_ns));
  }

  static ordered_json ClockOf(const ProcessTrace& process) {
    const trace::ClockLine& line = process.clock.line;
    ordered_json clock = {{"offset_seconds", line.offset_ns / 1e9},
                          {"uncertainty_seconds", nullptr},
                          {"drift", line.drift},
                          {"correction_seconds", process.correction_ns / 1e9}};
    if (const int64_t doubt = DoubtNs(process); doubt >= 0) {
      clock["uncertainty_seconds"] = doubt / 1e9;
    }
    return clock;
  }

  ordered_json OtherData() const {
    ordered_json data = {{"messages", trace_.flows.size()},
                         {"stretches", trace_.stretches},
                         {"stretched_seconds", trace_.stretched_ns / 1e9},
                         {"contradictions", trace_.contradictions},
                         {"processes", ordered_json::array()},
                         {"stages", ordered_json::array()}};
    for (const ProcessTrace& process : trace_.processes) {
      data["processes"].push_back({{"worker", process.header.worker},
                                   {"pid", process.header.pid},
                                   {"run", process.header.run},
                                   {"clock", ClockOf(process)},
                                   {"spans_lost", process.lost}});
    }
    for (const auto& [stage, seconds] : SecondsByStage(trace_)) {
      data["stages"].push_back({{"stage", stage}, {"seconds", seconds}});
    }
    return data;
  }

  const MergedTrace& trace_;
  io::AtomicFile& file_;
  const int64_t first_ns_;
  std::string text_;
  bool any_ = false;
};

}  // namespace

absl::Status WriteTraceJson(const MergedTrace& trace, const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::Create(path));
  GIMBAL_RETURN_IF_ERROR(EventWriter(trace, file).WriteAll());
  return file.Commit();
}

}  // namespace gimbal::cli

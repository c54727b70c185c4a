#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "common/trace/trace_file.h"

namespace gimbal::trace {
namespace {

absl::StatusOr<TraceHeader> ParseHeader(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("format") ||
      json["format"] != kTraceFormat) {
    return absl::DataLossError("it does not begin as a trace of gimbal does");
  }
  try {
    if (const auto version = json.value("version", int64_t{0});
        version != kTraceVersion) {
      return absl::DataLossError(absl::StrCat("it is of version ", version,
                                              ", this program reads version ",
                                              kTraceVersion));
    }
    return TraceHeader{.run = json.value("run", ""),
                       .worker = json.value("worker", ""),
                       .pid = json.value("pid", int64_t{0}),
                       .clock = json.value("clock", int64_t{0})};
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat("its first line is damaged: ", error.what()));
  }
}

// Sums and differences of such times fit.
bool IsTime(int64_t ns) { return std::abs(ns / 4) < (int64_t{1} << 60); }

bool CanBe(const Span& span) {
  if (!IsTime(span.begin_ns) || !IsTime(span.end_ns)) return false;
  switch (span.kind) {
    case SpanKind::kClockOf:
      return span.index >= 0;
    case SpanKind::kClock:
    case SpanKind::kLost:
      return span.index >= 0 && IsTime(span.index);
    default:
      return SpanName(span.kind) != nullptr && span.stage >= 0 &&
             span.end_ns >= span.begin_ns;
  }
}

absl::StatusOr<TraceContent> Parse(const std::string& text) {
  if (text.empty()) {
    return absl::DataLossError(
        "it is empty: its worker ended, or its disk was full, before anything "
        "was written");
  }
  const size_t line = text.find('\n');
  if (line == std::string::npos) {
    return absl::DataLossError("its first line is not whole");
  }
  TraceContent content;
  GIMBAL_ASSIGN_OR_RETURN(content.header, ParseHeader(text.substr(0, line)));
  // A span that was cut off is left out.
  const size_t spans = (text.size() - line - 1) / sizeof(Span);
  for (size_t i = 0; i < spans; ++i) {
    const size_t at = line + 1 + i * sizeof(Span);
    Span span;
    std::memcpy(&span, text.data() + at, sizeof span);
    if (!CanBe(span)) {
      content.damage = absl::StrCat("it is damaged from byte ", at, " of ",
                                    text.size(), " on");
      break;
    }
    content.spans.push_back(span);
  }
  return content;
}

}  // namespace

absl::StatusOr<TraceContent> ReadTraceFile(const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  auto content = Parse(text);
  if (content.ok()) return content;
  return absl::Status(
      content.status().code(),
      absl::StrCat(path, ": ", absl::string_view(content.status().message())));
}

}  // namespace gimbal::trace

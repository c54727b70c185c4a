#include "common/base/log_line.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gimbal::base {
namespace {

// UTC, so that lines of several machines can be put in order.
std::string TimeOf(double unix_seconds, char separator) {
  const auto milliseconds = std::llround(unix_seconds * 1000);
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02d%c%02d:%02d:%02d.%03d",
                         utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                         separator, utc.tm_hour, utc.tm_min, utc.tm_sec,
                         milliseconds % 1000);
}

std::string About(const LogContext& context) {
  std::string about;
  if (!context.stages.empty()) {
    absl::StrAppend(&about, context.stages.size() == 1 ? "stage " : "stages ",
                    absl::StrJoin(context.stages, ", "));
  }
  if (context.generation > 0) {
    absl::StrAppend(&about, about.empty() ? "" : ", ", "generation ",
                    context.generation);
  }
  return about.empty() ? about : absl::StrCat(" [", about, "]");
}

}  // namespace

std::string TextLine(const LogEvent& event, const std::string& tag,
                     const LogContext& context) {
  std::string text(event.text);
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  const char level = absl::ascii_toupper(event.level.front());
  return absl::StrCat(TimeOf(event.unix_seconds, ' '), " ",
                      std::string(1, level), " ", tag, About(context), ": ",
                      text);
}

std::string JsonLine(const LogEvent& event, const std::string& tag,
                     const LogContext& context) {
  nlohmann::ordered_json json = {
      {"time", TimeOf(event.unix_seconds, 'T') + "Z"},
      {"level", event.level},
      {"program", tag}};
  if (!context.run.empty()) json["run"] = context.run;
  if (!context.stages.empty()) json["stages"] = context.stages;
  if (context.generation > 0) json["generation"] = context.generation;
  json["text"] = event.text;
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gimbal::base

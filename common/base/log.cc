#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log_format.h"
#include "common/base/log_line.h"

namespace gimbal::base {
namespace {

using Level = spdlog::level::level_enum;

struct State {
  std::mutex mutex;
  std::string tag = "gimbal";
  bool json = false;
  LogContext context;
};

State& TheState() {
  static State state;
  return state;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = spdlog::stderr_logger_mt("gimbal");
    made->set_pattern("%v");
    return made;
  }();
  return *logger;
}

void Log(Level level, std::string_view text) {
  if (!Logger().should_log(level)) return;
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  const LogEvent event = {.unix_seconds = Clock::Real().UnixSeconds(),
                          .level = {name.data(), name.size()},
                          .text = text};
  std::string line;
  {
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    line = state.json ? JsonLine(event, state.tag, state.context)
                      : TextLine(event, state.tag, state.context);
  }
  Logger().log(level, "{}", line);
}

}  // namespace

void InitLog(const std::string& tag, const std::string& level) {
  {
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    state.tag = tag;
  }
  const auto parsed = spdlog::level::from_str(level);
  const bool known = parsed != spdlog::level::off || level == "off";
  Logger().set_level(known ? parsed : spdlog::level::info);
  Logger().flush_on(spdlog::level::info);
}

void SetLogFormat(std::string_view format) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.json = format == "json";
}

void SetLogContext(LogContext context) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.context = std::move(context);
}

void LogDebug(std::string_view text) { Log(Level::debug, text); }
void LogInfo(std::string_view text) { Log(Level::info, text); }
void LogWarning(std::string_view text) { Log(Level::warn, text); }
void LogError(std::string_view text) { Log(Level::err, text); }

void CheckFailed(const char* file, int line, const char* what) {
  Log(Level::critical,
      absl::StrCat(file, ":", line, ": broken invariant: ", what));
  Logger().flush();
  std::abort();
}

}  // namespace gimbal::base

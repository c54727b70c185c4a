#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace gimbal::base {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger =
      spdlog::stderr_logger_mt("gimbal");
  return *logger;
}

}  // namespace

void InitLog(const std::string& tag, const std::string& level) {
  Logger().set_pattern("%Y-%m-%d %H:%M:%S.%e %L " + tag + ": %v");
  const auto parsed = spdlog::level::from_str(level);
  const bool known = parsed != spdlog::level::off || level == "off";
  Logger().set_level(known ? parsed : spdlog::level::info);
  Logger().flush_on(spdlog::level::info);
}

void LogDebug(std::string_view text) { Logger().debug("{}", text); }
void LogInfo(std::string_view text) { Logger().info("{}", text); }
void LogWarning(std::string_view text) { Logger().warn("{}", text); }
void LogError(std::string_view text) { Logger().error("{}", text); }

void CheckFailed(const char* file, int line, const char* what) {
  Logger().critical("{}:{}: broken invariant: {}", file, line, what);
  Logger().flush();
  std::abort();
}

}  // namespace gimbal::base

// How a log line looks. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/log_format.h"

namespace gimbal::base {

struct LogEvent {
  double unix_seconds = 0;
  std::string_view level;  // "debug", "info", "warning", "error" or "critical"
  std::string_view text;
};

// Without the line's end, and with none inside.
std::string TextLine(const LogEvent& event, const std::string& tag,
                     const LogContext& context);
std::string JsonLine(const LogEvent& event, const std::string& tag,
                     const LogContext& context);

}  // namespace gimbal::base

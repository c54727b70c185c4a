// Log lines for people: one event per line on standard error, with the time,
// the level and the process's own tag ("worker 2", "coordinator").
//
// Thread-safe. Say a thing once per change of state, not once per retry.
#pragma once

#include <string>
#include <string_view>

namespace gimbal::base {

// Sets the tag of every later line of this process. Level: debug, info,
// warning or error; an unknown one is taken as info.
void InitLog(const std::string& tag, const std::string& level = "info");

void LogDebug(std::string_view text);
void LogInfo(std::string_view text);
void LogWarning(std::string_view text);
void LogError(std::string_view text);

// A broken invariant of our own code: logs where and why, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

}  // namespace gimbal::base

// For what only a bug can make false; bad input gets an absl::Status instead.
#define GIMBAL_CHECK(condition)                                    \
  do {                                                             \
    if (!(condition)) {                                            \
      ::gimbal::base::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                              \
  } while (false)

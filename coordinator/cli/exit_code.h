// Exit codes of `gimbal`, and how an error reaches the user.
#pragma once

#include "absl/status/status.h"

namespace gimbal::cli {

inline constexpr int kDone = 0;
inline constexpr int kInternalError = 1;
inline constexpr int kBadUsage = 2;     // command line, config or data
inline constexpr int kRunFailed = 3;    // the reason was printed
inline constexpr int kInterrupted = 4;  // ended early, checkpoint committed

// What the user can put right is kBadUsage; the rest is kInternalError.
int ExitCodeOf(const absl::Status& status);

// Prints "gimbal: MESSAGE" on standard error and returns the exit code.
int Fail(const absl::Status& status);

}  // namespace gimbal::cli

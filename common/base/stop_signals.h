// The signals besides INT that end a run at a checkpoint, by their names in the
// config (cluster.stop_signals): operators and schedulers announce the end of a
// job with them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace gimbal::base {

inline constexpr const char* kStopSignals[] = {"TERM", "USR1", "USR2"};

// Schedulers send several at once, or the same one twice: what follows a signal
// within this time is the same request. A later one asks a process to end at
// once.
inline constexpr std::chrono::seconds kSameRequest{1};

// Number of a signal in kStopSignals; nothing for another name.
std::optional<int> StopSignal(std::string_view name);

}  // namespace gimbal::base

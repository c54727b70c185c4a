// The signals besides INT that end a run at a checkpoint, by their names in the
// config (cluster.stop_signals): operators and schedulers announce the end of a
// job with them.
#pragma once

#include <optional>
#include <string_view>

namespace gimbal::base {

inline constexpr const char* kStopSignals[] = {"TERM", "USR1", "USR2"};

// Number of a signal in kStopSignals; nothing for another name.
std::optional<int> StopSignal(std::string_view name);

}  // namespace gimbal::base

#include "common/base/stop_signals.h"

#include <csignal>

namespace gimbal::base {

std::optional<int> StopSignal(std::string_view name) {
  if (name == "TERM") return SIGTERM;
  if (name == "USR1") return SIGUSR1;
  if (name == "USR2") return SIGUSR2;
  return std::nullopt;
}

}  // namespace gimbal::base

// Losses of a worker or a link, and what became of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gimbal::coordinator {

struct Recovery {
  int stage = 0;  // the first one concerned
  std::string reason;
  // Moments on the clock of metrics.jsonl's `seconds`.
  double detected_seconds = 0;
  double recovered_seconds = 0;  // 0: not
  int64_t steps_replayed = 0;

  friend bool operator==(const Recovery&, const Recovery&) = default;
};

// What earlier processes of the run went through.
struct RunHistory {
  std::vector<int> restarts;  // by stage
  std::vector<Recovery> recoveries;
};

}  // namespace gimbal::coordinator

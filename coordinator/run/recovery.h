// One loss of a worker or a link, and what became of it.
#pragma once

#include <cstdint>
#include <string>

namespace gimbal::coordinator {

struct Recovery {
  int stage = 0;  // the first one concerned
  std::string reason;
  // Moments on the clock of metrics.jsonl's `seconds`.
  double detected_seconds = 0;
  double recovered_seconds = 0;  // 0: not
  int64_t steps_replayed = 0;
};

}  // namespace gimbal::coordinator

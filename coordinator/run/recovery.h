// Losses of a worker or a link, what became of them, and what else a later
// process has to know of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/run/left_out.h"
#include "coordinator/run/refresh_change.h"

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

// A time in which a run that had begun did not train: a pause, a recovery.
// Moments as above.
struct Interruption {
  double begin = 0;
  double end = 0;

  friend bool operator==(const Interruption&, const Interruption&) = default;
};

// What earlier processes of the run went through.
struct RunHistory {
  std::vector<int> restarts;  // by stage
  std::vector<Recovery> recoveries;
  std::vector<Interruption> interruptions;     // in the order they were made
  std::vector<RefreshChange> refresh_changes;  // in the order they were made
  std::vector<LeftOut> left_out;               // likewise
  int64_t newest_committed = 0;                // update; good or not by now
  int64_t generation = 0;                      // newest one
};

}  // namespace gimbal::coordinator

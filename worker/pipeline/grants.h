// How far the stages of a worker may run, as the coordinator has granted it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "worker/optim/refresh.h"
#include "worker/pipeline/schedule.h"

namespace gimbal::worker {

struct Grant {
  int64_t until = 0;                   // last update that may run
  int64_t final_update = 0;            // last update of the run
  std::map<int64_t, CutActions> cuts;  // by update
  // By stage: the refresh rules that hold for the updates granted; none: every
  // update.
  std::map<int, std::vector<RefreshRule>> refresh;
  // Updates without effect, first and last of each range.
  std::vector<std::pair<int64_t, int64_t>> left_out;
};

// Thread-safe.
class Grants {
 public:
  struct Block {
    int64_t end = 0;  // last update of the run, as known when the block begins
    CutActions cut;
    bool refresh = false;   // the update refreshes the stage's bases
    bool left_out = false;  // the update has no effect
  };

  void Add(const Grant& grant);
  // The block of a stage that ends with `update`, or nothing while it is not
  // granted.
  std::optional<Block> Find(int stage, int64_t update) const;
  // Update after which the run is over; known from the first grant on.
  std::optional<int64_t> final_update() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Grant> grant_;
};

}  // namespace gimbal::worker

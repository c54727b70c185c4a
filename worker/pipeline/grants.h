// How far the stages of a worker may run, as the coordinator has granted it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "worker/pipeline/schedule.h"

namespace gimbal::worker {

struct Grant {
  int64_t until = 0;                   // last update that may run
  int64_t final_update = 0;            // last update of the run
  std::map<int64_t, CutActions> cuts;  // by update
};

// Thread-safe.
class Grants {
 public:
  struct Block {
    int64_t end = 0;  // last update of the run, as known when the block begins
    CutActions cut;
  };

  void Add(const Grant& grant);
  // The block that ends with `update`, or nothing while it is not granted.
  std::optional<Block> Find(int64_t update) const;
  // Update after which the run is over; known from the first grant on.
  std::optional<int64_t> final_update() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Grant> grant_;
};

}  // namespace gimbal::worker

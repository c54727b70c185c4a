// The weight versions of one stage that are still needed. A ring of arenas: an
// update reads the newest version and writes the next one into the slot of the
// version whose last backward has just run, so keeping versions costs no copy.
// With one slot the update is in place.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace gimbal::worker {

class WeightStash {
 public:
  // Elements of the memory for `versions` arenas of `arena_size` elements.
  static int64_t Size(int64_t arena_size, int versions);
  // `memory` may be a device's: only addresses in it are given out. It must
  // outlive the stash.
  WeightStash(float* memory, int64_t arena_size, int versions);

  // Weights of a live version; aborts when it is not live, because the caller
  // would otherwise compute with other weights than the schedule says.
  const float* Get(int64_t version) const;
  bool Has(int64_t version) const;
  int64_t newest() const { return newest_; }
  int64_t oldest() const;
  int versions() const { return static_cast<int>(labels_.size()); }
  int64_t bytes() const { return stride_ * versions() * 4; }

  // Memory for a version; what was in its slot is gone once Publish is called.
  float* SlotFor(int64_t version);
  // The slot now holds `version`. Versions are published in ascending order.
  void Publish(int64_t version);

 private:
  const int64_t stride_;  // elements from one arena to the next
  float* const memory_;
  std::vector<int64_t> labels_;  // version in each slot, -1: none
  int64_t newest_ = -1;
};

}  // namespace gimbal::worker

// Snapshots in a worker's memory, of its own stages and those that it keeps for
// others. It outlives assignments: what a stage of the process had kept is
// there for the one that starts next.
//
//   store.Renew();                             // registered (again)
//   store.Begin(run, generation, since, start);  // an assignment
//   store.Put(run, generation, stage, snapshot);
//   store.DropBefore(cut);                // the cut is committed
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/checkpoint/stage_snapshot.h"

namespace gimbal::worker {

// Thread-safe. Snapshots that were put are not changed any more.
class SnapshotStore {
 public:
  using Key = std::pair<int, int64_t>;  // stage, update

  // Unless the worker keeps its stages (Confirm), what is here may be of times
  // that it knows nothing about: the next Begin forgets it.
  void Renew();
  // What is here is of use under `generation`.
  void Confirm(int64_t generation);
  // Every stage started together under generation `since`, which is this one if
  // it is not known: at the cut after `start`. Then snapshots of later updates
  // are of no use, and none that was copied before is taken from now on. Those
  // of another run are forgotten.
  void Begin(const std::string& run, int64_t generation, int64_t since,
             int64_t start);

  // FAILED_PRECONDITION for another run than the present one, or a copy that
  // was made under a generation before `since`.
  absl::Status Admits(const std::string& run, int64_t generation) const;
  absl::Status Put(const std::string& run, int64_t generation, int stage,
                   std::shared_ptr<const StageSnapshot> snapshot);
  // Null when it is not here.
  std::shared_ptr<const StageSnapshot> Find(const std::string& run, int stage,
                                            int64_t update) const;

  // Of all stages.
  void DropBefore(int64_t update);
  void DropAt(int64_t update);
  void Drop(int stage, int64_t update);

  std::vector<Key> Keys() const;
  int64_t bytes() const;

 private:
  absl::Status AdmitsLocked(const std::string& run, int64_t generation) const;

  mutable std::mutex mutex_;
  std::string run_;         // empty: none, nothing is taken
  int64_t since_ = 0;       // older copies are refused
  int64_t generation_ = 0;  // newest known
  bool confirmed_ = false;
  std::map<Key, std::shared_ptr<const StageSnapshot>> snapshots_;
};

}  // namespace gimbal::worker

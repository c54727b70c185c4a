// Which workers have which stages' snapshots in memory, and which cut counts.
// Pure; not thread-safe.
//
//   cuts.Add(stage, update, worker);   // it says so
//   cuts.Lose(worker);                 // what it had is gone
//   if (auto whole = cuts.NewestWhole(rows_written, copies)) {
//     cuts.Commit(*whole);             // stages may start from it
//   }
//   cuts.Missing(*cuts.committed());   // empty: all of them could
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace gimbal::coordinator {

class MemoryCuts {
 public:
  explicit MemoryCuts(int stages) : stages_(stages) {}

  // False when the cut is of no interest: it is older than the committed one,
  // or was given up.
  bool Add(int stage, int64_t update, int64_t worker);
  void Lose(int64_t worker);
  // The cut will not be whole, or turned out to be of no use.
  void GiveUp(int64_t update);
  // Every stage starts again from the cut after `update`.
  void GoBack(int64_t update);

  // Newest cut up to `limit`, beyond the committed one, of which each stage has
  // at least so many copies.
  std::optional<int64_t> NewestWhole(int64_t limit, int copies) const;
  void Commit(int64_t update);
  // Stays when its copies are lost: messages reach back to it, no further.
  std::optional<int64_t> committed() const { return committed_; }

  // Who has the stage's snapshot, by id.
  std::vector<int64_t> Holders(int stage, int64_t update) const;
  // Stages whose snapshot nobody has.
  std::vector<int> Missing(int64_t update) const;

 private:
  using Copies = std::vector<std::set<int64_t>>;  // workers, by stage

  const int stages_;
  std::map<int64_t, Copies> cuts_;  // by update
  std::set<int64_t> given_up_;      // beyond the committed one
  std::optional<int64_t> committed_;
};

}  // namespace gimbal::coordinator

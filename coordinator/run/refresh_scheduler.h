// When which stage refreshes its bases: the plan of the config, changes that a
// user asks for, and with policy `adaptive` a new plan every adapt_every
// updates. Pure; not thread-safe.
//
// A change holds from one update on, on every stage and after every restart, so
// each is stored before it is granted, and an earlier life's are given back.
//
// Adaptive: the plan made from what the stages measured in update b = k K takes
// effect at update b + K + 1: until the plan is there, nothing beyond b + K is
// granted (`limit`). It is made when the row of update b is taken, rows being
// taken in order, so that it never depends on whose report came first; whoever
// finds the row finds the plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/refresh_policy.h"
#include "coordinator/run/refresh_change.h"
#include "worker/optim/refresh.h"

namespace gimbal::coordinator {

class RefreshScheduler {
 public:
  RefreshScheduler(const v1::RunConfig& config,
                   const std::vector<v1::StagePlacement>& stages);

  // Changes of an earlier life, in the order in which they were made.
  void Restore(const std::vector<RefreshChange>& changes);
  // The stages start again after update `start`: the rows beyond it will be
  // taken again, and give the plans that are there already.
  void Restart(int64_t start);

  // The row of the update, the next one, is good; `offdiagonal_ratios` by
  // stage. The adaptive plan that it makes due, already in force.
  std::optional<RefreshChange> Take(
      int64_t update, const std::vector<double>& offdiagonal_ratios);
  // What is measured from update `first` on is void, and will be measured again
  // by stages that start from before it. Plans of updates from the returned one
  // on were made of it: they are dropped.
  int64_t MakeVoid(int64_t first);
  // A change from update `from` on, which no stage has been granted yet; in
  // force. Later adaptive plans are dropped.
  absl::StatusOr<RefreshChange> Change(v1::RefreshPolicy policy, double period,
                                       int64_t from);

  // Whether a Change with these arguments would ask for what was asked last.
  bool IsAsked(v1::RefreshPolicy policy, double period, int64_t from) const;

  // Last update that may be granted as things are known.
  int64_t limit() const;
  const RefreshPeriods& initial() const { return initial_; }
  // Of one stage, by increasing `from`.
  std::vector<worker::RefreshRule> rules(int stage) const;

 private:
  // The change a user or the config made last, among those with from <= update.
  const RefreshChange& AskedAt(int64_t update) const;
  void Add(const RefreshChange& change);
  int64_t BoundaryFrom(int64_t update) const;

  const RefreshInput input_;  // of the config
  const int64_t interval_;    // K
  const RefreshPeriods initial_;
  std::vector<RefreshChange> asked_;  // by `from`; the first is the config's
  std::map<int64_t, RefreshChange> plans_;  // adaptive ones, by `from`
  int64_t boundary_;                        // b of the next row that may plan
};

}  // namespace gimbal::coordinator

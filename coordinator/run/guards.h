// What becomes of a minibatch that does damage: a loss, gradient or weight that
// is not finite, or a loss far above the last ones. Pure; not thread-safe.
//
// The rows of a run are looked at in order, so that the decision is a function
// of the numbers alone: about one minibatch at a time, and never about one that
// is left out. `skip` leaves out the minibatch itself, `rollback` also those
// before it. Then every stage goes back to a checkpoint before the first of
// them and makes those updates again without effect: weights and moments stay
// as they are, learning rate and data go on by update number.
//
//   Guards guards(config);
//   guards.Restore(decisions of earlier lives);
//   guards.Restart(rows that are kept);
//   auto verdict = guards.Look(row);   // each further row
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/ledger/metrics_row.h"
#include "coordinator/run/left_out.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

class Guards {
 public:
  explicit Guards(const v1::RunConfig& config);

  void Restore(const std::vector<LeftOut>& decisions) {
    decisions_ = decisions;
  }
  // The stages start again after these rows, which were good.
  void Restart(const std::vector<MetricsRow>& rows);

  // Notes in the row whether it is left out, and looks at it if it is not. A
  // decision is in force at once: `row` and those after it are void. An error
  // says why the run must end: the policy is `stop`, or the budget is used up.
  absl::StatusOr<std::optional<LeftOut>> Look(MetricsRow* row);

  const std::vector<LeftOut>& decisions() const { return decisions_; }

 private:
  std::optional<double> SpikeOf(double loss) const;
  absl::StatusOr<LeftOut> Decide(const char* kind, v1::GuardPolicy policy,
                                 int64_t update, std::string what);

  const v1::GuardsSection config_;
  // Nobody goes back beyond the origin: older checkpoints are of other stages.
  const int64_t earliest_;
  std::vector<LeftOut> decisions_;
  std::deque<double> losses_;  // the newest, at most the window
};

}  // namespace gimbal::coordinator

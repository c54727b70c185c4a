// The weight version of every stage, kept from the stages' reports, and the
// metrics rows assembled from them. Pure; not thread-safe.
//
// The ledger asserts the contract while the run goes: updates come one by one
// per stage, staleness is exactly what the schedule says, and a stage that is
// replayed says again what it said before. The first violation is returned as
// an error that the run fails with. Numbers that are not finite are noted in
// the row, for the run's guards (coordinator/run/guards.h).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/ledger/metrics_row.h"
#include "gimbal/v1/types.pb.h"
#include "worker/pipeline/schedule.h"

namespace gimbal::coordinator {

class VersionLedger {
 public:
  // Every stage stands at version `start`.
  VersionLedger(const worker::ScheduleSpec& schedule, int64_t start);

  // Row `update` waits for its held-out loss. Call before it is reported.
  void ExpectEvaluation(int64_t update) { evaluated_.insert(update); }

  // The stage starts again right after update `cut` and will report once more
  // what it reported from there on.
  void Replay(int stage, int64_t cut) { told_[stage] = cut; }
  // A stage has not come back yet to where it was.
  bool replaying() const { return told_ != versions_; }

  // INTERNAL for an update out of order, an unknown stage or a staleness that
  // is not the expected one.
  absl::Status Record(const v1::StageUpdate& report);
  absl::Status Record(const v1::Evaluation& report);

  // The rows that became complete, by update and without gaps: step, loss,
  // grad_norm, staleness, valid_loss, not_finite and offdiagonal_ratios are
  // filled in.
  std::vector<MetricsRow> TakeRows();

  int64_t version(int stage) const { return versions_[stage]; }
  // Where the stage stands; less than its version while it is replayed.
  int64_t told(int stage) const { return told_[stage]; }
  // Newest update that every stage has reported.
  int64_t common_version() const;
  // Newest update whose row was taken.
  int64_t rows_taken() const { return rows_taken_; }

 private:
  struct OpenRow {
    int reported = 0;  // stages
    std::vector<double> square_sums;
    std::optional<double> loss;
    MetricsRow row;
  };

  bool Complete(const OpenRow& open) const;

  worker::ScheduleSpec schedule_;
  absl::Status CheckReplay(const v1::StageUpdate& report) const;

  std::vector<int64_t> versions_;
  std::vector<int64_t> told_;  // in the stage's present life
  int64_t rows_taken_;
  std::deque<OpenRow> open_;  // rows_taken_ + 1, ...
  std::set<int64_t> evaluated_;
};

}  // namespace gimbal::coordinator

// What is said about a run as a whole, from its metrics rows. Pure; not
// thread-safe. Feeding it the kept rows of an earlier part of the run gives
// what it would have been without the interruption.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "coordinator/ledger/metrics_row.h"
#include "coordinator/ledger/training_rate.h"
#include "worker/pipeline/schedule.h"

namespace gimbal::coordinator {

class RunStatistics {
 public:
  explicit RunStatistics(const worker::ScheduleSpec& schedule);

  void Add(const MetricsRow& row);
  // As of TrainingRate.
  void Interrupt() { rate_.Interrupt(); }

  const std::optional<MetricsRow>& last() const { return last_; }
  // Minibatches that had no effect.
  int64_t left_out() const { return left_out_; }
  // Mean loss of the newest 50 updates that had an effect.
  std::optional<double> smoothed_loss() const;
  std::optional<double> valid_loss() const { return valid_loss_; }
  std::optional<int64_t> valid_update() const { return valid_update_; }
  // Of the present stages: rows up to `schedule.origin` are of others. Mean
  // over the updates after the stage's warm-up; 0 before there is one.
  double staleness_mean(int stage) const;
  int64_t staleness_max(int stage) const { return stages_[stage].max; }
  const TrainingRate& rate() const { return rate_; }

 private:
  struct StageStaleness {
    int64_t delay = 0;
    int64_t sum = 0;
    int64_t count = 0;
    int64_t max = 0;
  };

  int64_t origin_;
  std::vector<StageStaleness> stages_;
  std::optional<MetricsRow> last_;
  std::deque<double> losses_;
  int64_t left_out_ = 0;
  TrainingRate rate_;
  std::optional<double> valid_loss_;
  std::optional<int64_t> valid_update_;
};

}  // namespace gimbal::coordinator

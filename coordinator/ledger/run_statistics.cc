#include "coordinator/ledger/run_statistics.h"

#include <algorithm>
#include <numeric>

namespace gimbal::coordinator {
namespace {

constexpr size_t kSmoothedUpdates = 50;

}  // namespace

RunStatistics::RunStatistics(const worker::ScheduleSpec& schedule)
    : origin_(schedule.origin), stages_(schedule.stages) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    stages_[stage].delay = worker::Delay(schedule, stage);
  }
}

void RunStatistics::Add(const MetricsRow& row) {
  if (row.left_out.empty()) {
    losses_.push_back(row.loss);
    if (losses_.size() > kSmoothedUpdates) losses_.pop_front();
  } else {
    ++left_out_;
  }
  if (row.valid_loss.has_value()) {
    valid_loss_ = row.valid_loss;
    valid_update_ = row.step;
  }
  for (size_t stage = 0; stage < stages_.size() && row.step > origin_;
       ++stage) {
    StageStaleness& stats = stages_[stage];
    stats.max = std::max(stats.max, row.staleness[stage]);
    if (row.step > origin_ + stats.delay) {
      stats.sum += row.staleness[stage];
      ++stats.count;
    }
  }
  rate_.Add(row.seconds, row.tokens, row.valid_loss.has_value());
  last_ = row;
}

std::optional<double> RunStatistics::smoothed_loss() const {
  if (losses_.empty()) return std::nullopt;
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) /
         static_cast<double>(losses_.size());
}

double RunStatistics::staleness_mean(int stage) const {
  const StageStaleness& stats = stages_[stage];
  if (stats.count == 0) return 0;
  return static_cast<double>(stats.sum) / static_cast<double>(stats.count);
}

}  // namespace gimbal::coordinator

#include "coordinator/run/guards.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace gimbal::coordinator {
namespace {

// Of the mean: losses that hardly differ make no spike of a last bit.
constexpr double kLeastDeviation = 1e-3;

}  // namespace

Guards::Guards(const v1::RunConfig& config)
    : config_(config.guards()), earliest_(config.pipeline().origin() + 1) {}

void Guards::Restart(const std::vector<MetricsRow>& rows) {
  losses_.clear();
  const auto window = static_cast<size_t>(config_.loss_spike_window());
  for (const MetricsRow& row : rows) {
    if (!row.left_out.empty()) continue;
    losses_.push_back(row.loss);
    if (losses_.size() > window) losses_.pop_front();
  }
}

absl::StatusOr<std::optional<LeftOut>> Guards::Look(MetricsRow* row) {
  const auto decision = std::ranges::find_if(
      decisions_,
      [&](const LeftOut& left_out) { return left_out.covers(row->step); });
  if (decision != decisions_.end()) {
    row->left_out = decision->kind;
    return std::nullopt;
  }
  if (!row->not_finite.empty()) {
    return Decide("nan", config_.nan(), row->step,
                  absl::StrCat(row->not_finite, ", expected a finite number"));
  }
  if (const std::optional<double> z = SpikeOf(row->loss)) {
    return Decide("loss_spike", config_.loss_spike(), row->step,
                  absl::StrFormat("the loss is %.4f, %.1f standard deviations "
                                  "above the mean of the last %d",
                                  row->loss, *z, losses_.size()));
  }
  losses_.push_back(row->loss);
  if (losses_.size() > static_cast<size_t>(config_.loss_spike_window())) {
    losses_.pop_front();
  }
  return std::nullopt;
}

// How many standard deviations above the mean, if that is a spike.
std::optional<double> Guards::SpikeOf(double loss) const {
  const double limit = config_.loss_spike_z();
  const auto count = static_cast<double>(losses_.size());
  if (limit == 0 ||
      losses_.size() < static_cast<size_t>(config_.loss_spike_window())) {
    return std::nullopt;
  }
  double sum = 0;
  for (const double value : losses_) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : losses_) squares += (value - mean) * (value - mean);
  const double deviation =
      std::max(std::sqrt(squares / count), kLeastDeviation * std::abs(mean));
  const double z = (loss - mean) / deviation;
  if (z <= limit) return std::nullopt;
  return z;
}

absl::StatusOr<LeftOut> Guards::Decide(const char* kind, v1::GuardPolicy policy,
                                       int64_t update, std::string what) {
  what = absl::StrCat("update ", update, ": ", what);
  const std::string name = absl::StrCat("guards.", kind);
  if (policy == v1::GUARD_POLICY_STOP) {
    return absl::OutOfRangeError(
        absl::StrCat(what, " (", name,
                     " is stop; with skip that minibatch would be left out)"));
  }
  if (decisions_.size() >= static_cast<size_t>(config_.budget())) {
    return absl::OutOfRangeError(absl::StrCat(
        what, "; minibatches have been left out ", decisions_.size(),
        " times, guards.budget is ", config_.budget(),
        "; is the learning rate too high, or the data damaged?"));
  }
  LeftOut left_out{.first = update,
                   .last = update,
                   .kind = kind,
                   .reason = absl::StrCat(what, " (", name, ")")};
  if (policy == v1::GUARD_POLICY_ROLLBACK) {
    const int64_t first = update - config_.rollback_updates() + 1;
    left_out.first = std::max(earliest_, first);
    if (first < earliest_ && earliest_ > 1) {
      absl::StrAppend(&left_out.reason,
                      "; no further back than pipeline.origin");
    }
  }
  decisions_.push_back(left_out);
  return left_out;
}

}  // namespace gimbal::coordinator

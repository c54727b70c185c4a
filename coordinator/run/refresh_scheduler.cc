#include "coordinator/run/refresh_scheduler.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gimbal::coordinator {
namespace {

std::string RatiosText(const std::vector<double>& ratios) {
  return absl::StrJoin(ratios, ", ", [](std::string* out, double ratio) {
    absl::StrAppendFormat(out, "%.3f", ratio);
  });
}

}  // namespace

RefreshScheduler::RefreshScheduler(
    const v1::RunConfig& config, const std::vector<v1::StagePlacement>& stages)
    : input_(RefreshInputOf(config, stages)),
      interval_(std::max(1, config.optimizer().rotation().adapt_every())),
      initial_(PlanRefreshes(input_)),
      boundary_(interval_) {
  changes_.push_back({.policy = input_.policy,
                      .period = input_.period,
                      .periods = initial_.periods,
                      .reason = initial_.reason,
                      .asked = true});
}

void RefreshScheduler::Add(const RefreshChange& change) {
  std::erase_if(changes_, [&](const RefreshChange& other) {
    return other.from >= change.from && (change.asked || !other.asked);
  });
  changes_.push_back(change);
  std::ranges::stable_sort(changes_, {}, &RefreshChange::from);
}

void RefreshScheduler::Restore(const std::vector<RefreshChange>& changes) {
  for (const RefreshChange& change : changes) Add(change);
}

// A checkpoint counts only after the plans up to it are made, so the next plan
// is about updates that will be reported again.
void RefreshScheduler::Restart(int64_t start) {
  boundary_ = (start / interval_ + 1) * interval_;
  measured_.clear();
}

const RefreshChange& RefreshScheduler::AskedAt(int64_t update) const {
  const RefreshChange* last = &changes_.front();
  for (const RefreshChange& change : changes_) {
    if (change.asked && change.from <= update) last = &change;
  }
  return *last;
}

void RefreshScheduler::Note(int stage, int64_t update,
                            double offdiagonal_ratio) {
  if (update == boundary_) measured_[stage] = offdiagonal_ratio;
}

std::optional<RefreshChange> RefreshScheduler::TakeDue() {
  if (measured_.size() < input_.delays.size()) return std::nullopt;
  const int64_t boundary = boundary_;
  std::vector<double> ratios;
  for (const auto& [stage, ratio] : measured_) ratios.push_back(ratio);
  boundary_ += interval_;
  measured_.clear();
  const RefreshChange& asked = AskedAt(boundary);
  const int64_t from = boundary + interval_ + 1;
  const bool overruled =
      std::ranges::any_of(changes_, [&](const RefreshChange& change) {
        return change.asked && change.from > boundary && change.from <= from;
      });
  const bool made = std::ranges::any_of(
      changes_,
      [&](const RefreshChange& change) { return change.from == from; });
  if (asked.policy != v1::REFRESH_POLICY_ADAPTIVE || overruled || made) {
    return std::nullopt;
  }
  RefreshInput input = input_;
  input.policy = v1::REFRESH_POLICY_ADAPTIVE;
  input.period = asked.period;
  input.offdiagonal_ratios = ratios;
  const RefreshPeriods plan = PlanRefreshes(input);
  const RefreshChange change{
      .from = from,
      .policy = v1::REFRESH_POLICY_ADAPTIVE,
      .period = asked.period,
      .periods = plan.periods,
      .reason = absl::StrCat(plan.reason, "; off-diagonal ratios after update ",
                             boundary, ": ", RatiosText(ratios))};
  Add(change);
  return change;
}

absl::StatusOr<RefreshChange> RefreshScheduler::Change(v1::RefreshPolicy policy,
                                                       double period,
                                                       int64_t from) {
  if (period < 1 || period > input_.max_period) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a mean refresh period of ", period, ": expected 1 to ",
        input_.max_period, " updates (optimizer.rotation.max_period)"));
  }
  RefreshInput input = input_;
  input.policy = policy;
  input.period = period;
  const RefreshPeriods plan = PlanRefreshes(input);
  const RefreshChange change{.from = from,
                             .policy = policy,
                             .period = period,
                             .periods = plan.periods,
                             .reason = plan.reason,
                             .asked = true};
  Add(change);
  return change;
}

bool RefreshScheduler::IsAsked(v1::RefreshPolicy policy, double period,
                               int64_t from) const {
  const RefreshChange& asked = AskedAt(from);
  return asked.policy == policy && asked.period == period;
}

// The first boundary from now on that makes a plan: stages must know it before
// one interval has passed.
int64_t RefreshScheduler::limit() const {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const RefreshChange& change : changes_) {
    const int64_t at = (std::max(change.from, boundary_) + interval_ - 1) /
                       interval_ * interval_;
    if (AskedAt(at).policy == v1::REFRESH_POLICY_ADAPTIVE) {
      limit = std::min(limit, at + interval_);
    }
  }
  return limit;
}

std::vector<worker::RefreshRule> RefreshScheduler::rules(int stage) const {
  std::vector<worker::RefreshRule> rules;
  for (const RefreshChange& change : changes_) {
    rules.push_back({.from = change.from,
                     .period = change.periods[static_cast<size_t>(stage)]});
  }
  return rules;
}

}  // namespace gimbal::coordinator

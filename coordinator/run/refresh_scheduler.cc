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

// Without bases there is nothing to measure, and nothing to wait for.
RefreshInput InputOf(const v1::RunConfig& config,
                     const std::vector<v1::StagePlacement>& stages) {
  RefreshInput input = RefreshInputOf(config, stages);
  if (config.optimizer().name() != v1::OPTIMIZER_NAME_BASIS_ROTATION) {
    input.policy = v1::REFRESH_POLICY_UNIFORM;
  }
  return input;
}

}  // namespace

RefreshScheduler::RefreshScheduler(
    const v1::RunConfig& config, const std::vector<v1::StagePlacement>& stages)
    : input_(InputOf(config, stages)),
      interval_(std::max(1, config.optimizer().rotation().adapt_every())),
      initial_(PlanRefreshes(input_)),
      boundary_(interval_) {
  asked_.push_back({.policy = input_.policy,
                    .period = input_.period,
                    .periods = initial_.periods,
                    .reason = initial_.reason,
                    .asked = true});
}

void RefreshScheduler::Add(const RefreshChange& change) {
  if (!change.asked) {
    plans_.insert_or_assign(change.from, change);
    return;
  }
  plans_.erase(plans_.lower_bound(change.from), plans_.end());
  std::erase_if(asked_, [&](const RefreshChange& other) {
    return other.from >= change.from;
  });
  asked_.push_back(change);
}

void RefreshScheduler::Restore(const std::vector<RefreshChange>& changes) {
  for (const RefreshChange& change : changes) Add(change);
}

void RefreshScheduler::Restart(int64_t start) {
  boundary_ = BoundaryFrom(start + 1);
}

int64_t RefreshScheduler::BoundaryFrom(int64_t update) const {
  return (update + interval_ - 1) / interval_ * interval_;
}

const RefreshChange& RefreshScheduler::AskedAt(int64_t update) const {
  const RefreshChange* last = &asked_.front();
  for (const RefreshChange& change : asked_) {
    if (change.from <= update) last = &change;
  }
  return *last;
}

std::optional<RefreshChange> RefreshScheduler::Take(
    int64_t update, const std::vector<double>& offdiagonal_ratios) {
  boundary_ = BoundaryFrom(update + 1);
  if (update % interval_ != 0) return std::nullopt;
  const int64_t from = update + interval_ + 1;
  const RefreshChange& asked = AskedAt(update);
  const bool overruled =
      std::ranges::any_of(asked_, [&](const RefreshChange& change) {
        return change.from > update && change.from <= from;
      });
  if (asked.policy != v1::REFRESH_POLICY_ADAPTIVE || overruled ||
      plans_.contains(from)) {
    return std::nullopt;
  }
  RefreshInput input = input_;
  input.policy = v1::REFRESH_POLICY_ADAPTIVE;
  input.period = asked.period;
  input.offdiagonal_ratios = offdiagonal_ratios;
  input.offdiagonal_ratios.resize(input.delays.size());
  const RefreshPeriods plan = PlanRefreshes(input);
  const RefreshChange change{
      .from = from,
      .policy = v1::REFRESH_POLICY_ADAPTIVE,
      .period = asked.period,
      .periods = plan.periods,
      .reason =
          absl::StrCat(plan.reason, "; off-diagonal ratios after update ",
                       update, ": ", RatiosText(input.offdiagonal_ratios))};
  Add(change);
  return change;
}

int64_t RefreshScheduler::MakeVoid(int64_t first) {
  const int64_t from = first + interval_ + 1;
  plans_.erase(plans_.lower_bound(from), plans_.end());
  return from;
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

// Stages must know a plan before one interval has passed since its boundary.
// Those of an earlier life are known.
int64_t RefreshScheduler::limit() const {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const RefreshChange& change : asked_) {
    int64_t boundary = BoundaryFrom(std::max(change.from, boundary_));
    while (plans_.contains(boundary + interval_ + 1)) boundary += interval_;
    if (AskedAt(boundary).policy == v1::REFRESH_POLICY_ADAPTIVE) {
      limit = std::min(limit, boundary + interval_);
    }
  }
  return limit;
}

std::vector<worker::RefreshRule> RefreshScheduler::rules(int stage) const {
  std::vector<worker::RefreshRule> rules;
  const auto add = [&](const RefreshChange& change) {
    rules.push_back({.from = change.from,
                     .period = change.periods[static_cast<size_t>(stage)]});
  };
  for (const RefreshChange& change : asked_) add(change);
  for (const auto& [from, plan] : plans_) add(plan);
  std::ranges::stable_sort(rules, {}, &worker::RefreshRule::from);
  return rules;
}

}  // namespace gimbal::coordinator

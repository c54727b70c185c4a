#include "coordinator/planner/refresh_policy.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {
namespace {

std::vector<double> Weights(const RefreshInput& input) {
  const size_t stages = input.delays.size();
  const int64_t longest =
      *std::max_element(input.delays.begin(), input.delays.end());
  std::vector<double> weights(stages, 1);
  for (size_t s = 0; s < stages; ++s) {
    switch (input.policy) {
      case v1::REFRESH_POLICY_STAGE_AWARE:
        weights[s] = static_cast<double>(input.delays[s]);
        break;
      case v1::REFRESH_POLICY_INVERSE:
        weights[s] = static_cast<double>(longest - input.delays[s]);
        break;
      case v1::REFRESH_POLICY_ADAPTIVE:
        weights[s] = s < input.offdiagonal_ratios.size()
                         ? input.offdiagonal_ratios[s]
                         : 0;
        break;
      default:
        break;
    }
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  if (largest <= 0) {
    weights.assign(stages, 1);
  }
  // Stages without weight come last, but they take what the others cannot use.
  for (double& weight : weights) weight = std::max(weight, 1e-9 * largest);
  return weights;
}

double RateOf(const RefreshInput& input, double k, double weight) {
  return std::clamp(k * weight, 1 / input.max_period, 1.0);
}

double Spent(const RefreshInput& input, const std::vector<double>& weights,
             double k) {
  double spent = 0;
  for (size_t s = 0; s < weights.size(); ++s) {
    spent += input.costs[s] * RateOf(input, k, weights[s]);
  }
  return spent;
}

// What is spent grows with k: halve the interval that holds the budget.
double SpendBudget(const RefreshInput& input,
                   const std::vector<double>& weights) {
  const double budget =
      std::accumulate(input.costs.begin(), input.costs.end(), 0.0) /
      input.period;
  const double least = *std::min_element(weights.begin(), weights.end());
  double low = 0, high = 1 / least;  // every stage at each update
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (Spent(input, weights, middle) < budget ? low : high) = middle;
  }
  return high;
}

std::string PolicyName(v1::RefreshPolicy policy) {
  switch (policy) {
    case v1::REFRESH_POLICY_STAGE_AWARE:
      return "stage_aware: rates follow the delay";
    case v1::REFRESH_POLICY_INVERSE:
      return "inverse: rates fall with the delay";
    case v1::REFRESH_POLICY_ADAPTIVE:
      return "adaptive: rates follow the measured off-diagonal ratio";
    default:
      return "uniform: every stage has the same rate";
  }
}

}  // namespace

RefreshPeriods PlanRefreshes(const RefreshInput& input) {
  RefreshPeriods plan{.reason = absl::StrCat(PolicyName(input.policy),
                                             ", mean period ", input.period)};
  if (input.policy == v1::REFRESH_POLICY_UNIFORM) {
    plan.periods.assign(input.delays.size(), input.period);
    return plan;
  }
  const std::vector<double> weights = Weights(input);
  const double k = SpendBudget(input, weights);
  for (const double weight : weights) {
    plan.periods.push_back(1 / RateOf(input, k, weight));
  }
  return plan;
}

RefreshInput RefreshInputOf(const v1::RunConfig& config,
                            const std::vector<v1::StagePlacement>& stages) {
  const v1::RotationSection& rotation = config.optimizer().rotation();
  const worker::ScheduleSpec schedule = worker::ScheduleSpecOf(config);
  RefreshInput input{
      .policy = rotation.policy(),
      .period = std::max(1.0, static_cast<double>(rotation.period())),
      .max_period = static_cast<double>(rotation.max_period())};
  input.max_period = std::max(input.period, input.max_period);
  for (const v1::StagePlacement& stage : stages) {
    input.delays.push_back(worker::Delay(schedule, stage.stage()));
    input.costs.push_back(stage.blocks());
  }
  return input;
}

}  // namespace gimbal::coordinator

#include "coordinator/planner/refresh_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

using ::testing::Each;

RefreshInput Input(v1::RefreshPolicy policy, std::vector<int64_t> delays,
                   double period) {
  RefreshInput input{.policy = policy, .period = period, .max_period = 100};
  input.costs.assign(delays.size(), 1);
  input.delays = std::move(delays);
  return input;
}

double Rate(const RefreshInput& input, const RefreshPeriods& plan) {
  double rate = 0;
  for (size_t s = 0; s < plan.periods.size(); ++s) {
    rate += input.costs[s] / plan.periods[s];
  }
  return rate;
}

TEST(RefreshPolicy, UniformIsThePeriodEverywhere) {
  const auto plan =
      PlanRefreshes(Input(v1::REFRESH_POLICY_UNIFORM, {3, 2, 1, 0}, 10));
  EXPECT_THAT(plan.periods, Each(10.0));
}

TEST(RefreshPolicy, EveryPolicySpendsTheSameBudget) {
  for (const v1::RefreshPolicy policy :
       {v1::REFRESH_POLICY_UNIFORM, v1::REFRESH_POLICY_STAGE_AWARE,
        v1::REFRESH_POLICY_INVERSE, v1::REFRESH_POLICY_ADAPTIVE}) {
    for (const double period : {1.0, 2.0, 10.0, 50.0, 100.0}) {
      RefreshInput input = Input(policy, {7, 6, 5, 4, 3, 2, 1, 0}, period);
      input.costs = {2, 1, 1, 1, 1, 1, 1, 3};
      input.offdiagonal_ratios = {0.1, 0.9, 0.2, 0.3, 0, 0.4, 0.5, 0.6};
      const RefreshPeriods plan = PlanRefreshes(input);
      EXPECT_NEAR(Rate(input, plan), 11 / period, 1e-9) << plan.reason;
      for (const double p : plan.periods) {
        EXPECT_GE(p, 1);
        EXPECT_LE(p, 100 + 1e-9);
      }
    }
  }
}

TEST(RefreshPolicy, StageAwareRatesFollowTheDelay) {
  const auto plan =
      PlanRefreshes(Input(v1::REFRESH_POLICY_STAGE_AWARE, {3, 2, 1, 0}, 10));
  EXPECT_NEAR(plan.periods[1] / plan.periods[0], 1.5, 1e-9);
  EXPECT_NEAR(plan.periods[2] / plan.periods[0], 3, 1e-9);
  EXPECT_NEAR(plan.periods[3], 100, 1e-9) << "delay 0: the longest period";
}

TEST(RefreshPolicy, InverseIsTheMirror) {
  const auto aware =
      PlanRefreshes(Input(v1::REFRESH_POLICY_STAGE_AWARE, {3, 2, 1, 0}, 10));
  const auto inverse =
      PlanRefreshes(Input(v1::REFRESH_POLICY_INVERSE, {3, 2, 1, 0}, 10));
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_NEAR(inverse.periods[s], aware.periods[3 - s], 1e-9);
  }
}

TEST(RefreshPolicy, WithoutDelayOrMeasurementItIsUniform) {
  for (const v1::RefreshPolicy policy :
       {v1::REFRESH_POLICY_STAGE_AWARE, v1::REFRESH_POLICY_INVERSE,
        v1::REFRESH_POLICY_ADAPTIVE}) {
    const auto plan = PlanRefreshes(Input(policy, {0, 0, 0}, 10));
    for (const double p : plan.periods) EXPECT_NEAR(p, 10, 1e-9);
  }
}

}  // namespace
}  // namespace gimbal::coordinator

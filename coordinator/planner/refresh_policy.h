// How often each stage refreshes its bases. Pure.
//
// The budget is what a uniform period would spend: sum of cost_s / period over
// the stages. A policy gives stage s the rate
//   1 / period_s = clamp(k weight_s, 1 / max_period, 1)
// with the k that spends the budget, and the weights
//   uniform      1
//   stage_aware  the stage's delay (arXiv 2602.03515: the staler a stage, the
//                more it gains from an aligned basis)
//   inverse      the largest delay minus the stage's (for the ablation)
//   adaptive     the measured off-diagonal ratio
// Without any weight (a pipeline without delay, nothing measured) every policy
// is uniform.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

struct RefreshInput {
  v1::RefreshPolicy policy = v1::REFRESH_POLICY_UNIFORM;
  double period = 1;      // mean over the budget, at least 1
  double max_period = 1;  // at least `period`
  // Of every stage. Costs are relative and positive.
  std::vector<int64_t> delays;
  std::vector<double> costs;
  std::vector<double> offdiagonal_ratios;  // adaptive only
};

struct RefreshPeriods {
  std::vector<double> periods;  // of every stage, in updates, fractional
  std::string reason;
};

RefreshPeriods PlanRefreshes(const RefreshInput& input);

// What the config says, before anything is measured. A stage's cost is its
// number of blocks.
RefreshInput RefreshInputOf(const v1::RunConfig& config,
                            const std::vector<v1::StagePlacement>& stages);

}  // namespace gimbal::coordinator

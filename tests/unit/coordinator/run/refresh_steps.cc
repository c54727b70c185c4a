#include "tests/unit/coordinator/run/refresh_steps.h"

#include <gtest/gtest.h>

#include <set>

#include "coordinator/planner/placement.h"
#include "coordinator/planner/refresh_policy.h"

namespace gimbal::coordinator {
namespace {

struct Asked {
  int64_t from = 1;
  v1::RefreshPolicy policy;
  double period = 1;
};

std::vector<Asked> AllAsked(const FakeCluster& cluster,
                            const RefreshInput& input) {
  std::vector<Asked> all = {{1, input.policy, input.period}};
  for (const RefreshChange& change : cluster.effects.refresh_changes) {
    if (!change.asked) continue;
    std::erase_if(
        all, [&](const Asked& asked) { return asked.from >= change.from; });
    all.push_back({change.from, static_cast<v1::RefreshPolicy>(change.policy),
                   change.period});
  }
  return all;
}

const Asked& At(const std::vector<Asked>& all, int64_t update) {
  const Asked* last = &all.front();
  for (const Asked& asked : all) {
    if (asked.from <= update) last = &asked;
  }
  return *last;
}

// Periods at the update, by the definition of the policy.
std::vector<double> PeriodsAt(const RefreshInput& input,
                              const std::vector<Asked>& all, int64_t interval,
                              const std::set<int64_t>& left_out,
                              int64_t update) {
  const Asked& asked = At(all, update);
  RefreshInput now = input;
  now.policy = asked.policy;
  now.period = asked.period;
  // Of the newest boundary that a plan for this update can be of.
  const int64_t boundary = (update - 1) / interval * interval - interval;
  if (asked.policy == v1::REFRESH_POLICY_ADAPTIVE && boundary >= asked.from) {
    for (size_t stage = 0; stage < input.delays.size(); ++stage) {
      now.offdiagonal_ratios.push_back(
          FakeCluster::RatioOf(static_cast<int>(stage), boundary, left_out));
    }
  }
  return PlanRefreshes(now).periods;
}

}  // namespace

RunSetup RotatingSetup(v1::RefreshPolicy policy) {
  RunSetup setup = FakeSetup(4, 2);
  setup.config.mutable_run()->set_steps(60);
  v1::OptimizerSection& optimizer = *setup.config.mutable_optimizer();
  optimizer.set_name(v1::OPTIMIZER_NAME_BASIS_ROTATION);
  optimizer.mutable_rotation()->set_policy(policy);
  optimizer.mutable_rotation()->set_period(4);
  optimizer.mutable_rotation()->set_max_period(10);
  optimizer.mutable_rotation()->set_adapt_every(10);
  return setup;
}

v1::CommandRequest RefreshRequest(v1::RefreshPolicy policy, double period) {
  v1::CommandRequest request;
  request.set_verb(v1::CommandRequest::VERB_REFRESH);
  request.set_refresh_policy(policy);
  request.set_refresh_period(period);
  return request;
}

void ExpectPeriodsThatFollow(const FakeCluster& cluster,
                             const v1::RunConfig& config) {
  const RefreshInput input = RefreshInputOf(config, *PlanStages(config));
  const std::vector<Asked> all = AllAsked(cluster, input);
  std::set<int64_t> left_out;
  for (const LeftOut& range : cluster.effects.left_out) {
    for (int64_t u = range.first; u <= range.last; ++u) left_out.insert(u);
  }
  const int64_t interval = config.optimizer().rotation().adapt_every();
  for (int64_t update = 1; update <= config.run().steps(); ++update) {
    const std::vector<double> expected =
        PeriodsAt(input, all, interval, left_out, update);
    for (int stage = 0; stage < cluster.stages(); ++stage) {
      const auto made = cluster.periods.find({stage, update});
      ASSERT_NE(made, cluster.periods.end()) << stage << ", " << update;
      ASSERT_EQ(made->second, expected[stage])
          << "stage " << stage << ", update " << update;
    }
  }
}

}  // namespace gimbal::coordinator

// What tests of refresh plans need of a fake cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/unit/coordinator/run/fake_cluster.h"

namespace gimbal::coordinator {

// Stages of one block each on two workers, 60 updates, a plan every 10 where
// the policy is adaptive.
RunSetup RotatingSetup(v1::RefreshPolicy policy);

v1::CommandRequest RefreshRequest(v1::RefreshPolicy policy, double period);

// Every stage has made every update under the rule that follows from the
// config, what users asked for and what was left out, whatever came in between.
void ExpectPeriodsThatFollow(const FakeCluster& cluster,
                             const v1::RunConfig& config);

}  // namespace gimbal::coordinator

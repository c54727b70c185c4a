// A run that goes on with other stages: what its config becomes, and what is
// planned anew. Pure.
//
// Files of a checkpoint hold single layers, so a run can go over to any number
// of stages at one of its checkpoints: weights, moments and bases are kept, the
// pipeline begins empty. `pipeline.origin` is the update of that checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/run/refresh_change.h"
#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

struct Continuation {
  v1::RunConfig config;
  // The run has to go over to the stages of `config`, whose origin is yet to be
  // set.
  bool other_stages = false;
};

// How a run of config `held` goes on when `wanted` is asked for. With the same
// stages the layout stays as it is held: `auto` and the split it stands for are
// the same, and whoever resumes need not know the origin. FAILED_PRECONDITION,
// with the first key that differs, when more than the layout does;
// INVALID_ARGUMENT for stages that cannot be.
absl::StatusOr<Continuation> Continue(const v1::RunConfig& wanted,
                                      const v1::RunConfig& held);

// The changes of the refresh plan that a user asked for, planned for the stages
// of `config`. What the adaptive policy made is left out: it measured others.
std::vector<RefreshChange> ReplanRefreshes(
    const v1::RunConfig& config, const std::vector<v1::StagePlacement>& stages,
    const std::vector<RefreshChange>& changes);

// The decision in words.
struct GoingOver {
  std::string what;    // "2 stages from update 21 on, before 4"
  std::string blocks;  // "blocks per stage: 4, 4, before 2, 2, 2, 2"
};
GoingOver Describe(int64_t origin,
                   const std::vector<v1::StagePlacement>& stages,
                   const std::vector<v1::StagePlacement>& before);

}  // namespace gimbal::coordinator

// A stage's state as after some updates with random gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/pipeline/stage_state.h"

namespace gimbal::worker {

// Stage 1 of 4: three versions.
StageStateSpec TrainedSpec();
std::unique_ptr<StageState> Trained(int64_t updates);

// Every number of weights and update rule is the same.
void ExpectSame(const StageState& a, const StageState& b);

}  // namespace gimbal::worker

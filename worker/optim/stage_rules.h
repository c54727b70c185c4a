// What every back end derives from the spec of a stage's update rule. Pure.
#pragma once

#include <cstdint>

#include "worker/optim/stage_update.h"

namespace gimbal::worker {

// Decay and eps of adaptive compensation's mean square (DC-ASGD-a).
inline constexpr double kMeanSquareDecay = 0.95;
inline constexpr double kMeanSquareEps = 1e-7;

// With the stage's own beta1.
OptimizerSpec SpecOfStage(const StageUpdateSpec& spec);

// Whether there is state of error feedback, and of adaptive compensation.
bool FeedsBack(const StageUpdateSpec& spec);
bool AveragesSquares(const StageUpdateSpec& spec);

// Whether the optimizer compensates the parameter, in its rotated space.
bool CompensatesRotated(const StageUpdateSpec& spec, const Param& param);

// Learning rate of the update `ahead` after `update`, for the prediction.
double LrAhead(const StageUpdateSpec& spec, int64_t update, int64_t ahead);

}  // namespace gimbal::worker

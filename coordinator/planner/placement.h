// Which worker hosts which stages. Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// The placement of every stage, in order: stage, first_block and blocks as
// SplitBlocks decides; worker_id and data_address are left unset.
absl::StatusOr<std::vector<v1::StagePlacement>> PlanStages(
    const v1::RunConfig& config);

// Index of the worker that hosts each stage: consecutive stages per worker, as
// even as possible, every worker at least one.
// Requires 1 <= workers <= stages.
std::vector<int> StagesOverWorkers(int stages, int workers);

}  // namespace gimbal::coordinator

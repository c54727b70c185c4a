#include "coordinator/planner/placement.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/planner/split.h"

namespace gimbal::coordinator {

absl::StatusOr<std::vector<v1::StagePlacement>> PlanStages(
    const v1::RunConfig& config) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<int> split, SplitBlocks(config));
  std::vector<v1::StagePlacement> placements;
  int first = 0;
  for (int blocks : split) {
    v1::StagePlacement& placement = placements.emplace_back();
    placement.set_stage(static_cast<int>(placements.size()) - 1);
    placement.set_first_block(first);
    placement.set_blocks(blocks);
    first += blocks;
  }
  return placements;
}

std::vector<int> StagesOverWorkers(int stages, int workers) {
  GIMBAL_CHECK(1 <= workers && workers <= stages);
  std::vector<int> worker_of(stages);
  for (int stage = 0; stage < stages; ++stage) {
    worker_of[stage] =
        static_cast<int>(static_cast<int64_t>(stage) * workers / stages);
  }
  return worker_of;
}

}  // namespace gimbal::coordinator

// Everything of a stage that a checkpoint holds: parameters by version and
// optimizer state. What is in flight is not here: it is computed again.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/model/parameter_table.h"
#include "worker/optim/optimizer.h"
#include "worker/pipeline/schedule.h"
#include "worker/pipeline/weight_stash.h"

namespace gimbal::worker {

struct StageState {
  StageState(const StageSpec& stage, const ScheduleSpec& schedule, int index,
             const OptimizerSpec& optimizer_spec)
      : table(ParameterTable::ForStage(stage)),
        stash(table.size(), WeightVersions(schedule, index)),
        optimizer(MakeOptimizer<float>(optimizer_spec, table)) {}

  const ParameterTable table;
  WeightStash stash;
  const std::unique_ptr<Optimizer<float>> optimizer;
};

}  // namespace gimbal::worker

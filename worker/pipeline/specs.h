// From a run's config to the plain specs of the numeric core and the schedule:
// the one place where protobuf meets them. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"
#include "worker/data/token_source.h"
#include "worker/model/model_spec.h"
#include "worker/optim/lr_schedule.h"
#include "worker/optim/optimizer.h"
#include "worker/pipeline/schedule.h"
#include "worker/pipeline/stage_state.h"

namespace gimbal::worker {

// All of them require a config that passed config::LoadRunConfig.
ModelSpec ModelSpecOf(const v1::RunConfig& config);
ScheduleSpec ScheduleSpecOf(const v1::RunConfig& config);
OptimizerSpec OptimizerSpecOf(const v1::RunConfig& config);
MitigationSpec MitigationSpecOf(const v1::RunConfig& config);
bool HasMitigation(const v1::RunConfig& config, std::string_view name);
LrSpec LrSpecOf(const v1::RunConfig& config);
DataFormat DataFormatOf(const v1::RunConfig& config);

// The part of the model that a placement names.
compute::WireFormat WireFormatOf(const v1::RunConfig& config);

StageSpec StageSpecOf(const v1::RunConfig& config,
                      const v1::StagePlacement& placement);
StageStateSpec StageStateSpecOf(const v1::RunConfig& config,
                                const v1::StagePlacement& placement);
// What the run asks of whatever computes it, as one stage (CheckSupports).
StageEngineSpec EngineSpecOf(const v1::RunConfig& config);
// The whole model as one stage.
StageSpec WholeModelOf(const v1::RunConfig& config, int microbatch);

// Tokens per update: microbatch * accumulate * context.
int64_t TokensPerUpdate(const v1::RunConfig& config);

}  // namespace gimbal::worker

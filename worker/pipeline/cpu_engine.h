// The CPU back end of a stage: its memory is the host's, and every call has
// done its work when it returns.
#pragma once

#include <memory>

#include "worker/pipeline/stage_engine.h"

namespace gimbal::worker {

std::unique_ptr<StageEngine> MakeCpuEngine(const StageEngineSpec& spec);

}  // namespace gimbal::worker

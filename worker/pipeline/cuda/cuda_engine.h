// The CUDA back end of a stage. Three streams: one computes, one brings what
// comes from the host, one takes results there; events join them. All memory is
// taken before the first microbatch.
#pragma once

#include <memory>

#include "worker/pipeline/stage_engine.h"

namespace gimbal::worker {

// Requires CheckSupports of the spec (worker/pipeline/backend.h). Uses
// device 0. Throws std::bad_alloc or std::runtime_error.
std::unique_ptr<StageEngine> MakeCudaEngine(const StageEngineSpec& spec);

}  // namespace gimbal::worker

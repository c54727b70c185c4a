// Which blocks of the model each pipeline stage holds. Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// Number of consecutive blocks of each stage; every block belongs to exactly
// one stage and no stage is empty.
//
// A split given in the config is taken as it is. `auto` evens out the work per
// token: multiply-accumulates of the blocks, plus the LM head at the last stage
// (an embedding is a lookup and costs nothing). Among equally loaded stages the
// later one gets the block, because it stashes fewer weight versions.
//
// INVALID_ARGUMENT when there are fewer blocks than stages, or when a given
// split has the wrong length, an empty stage or another sum than the layers.
absl::StatusOr<std::vector<int>> SplitBlocks(const v1::RunConfig& config);

}  // namespace gimbal::coordinator

// The newest weights of a checkpoint, without stash and optimizer: what
// evaluation and generation need.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/model/parameter_table.h"

namespace gimbal::worker {

// Fills `weights`, an arena of the table, from FOLDER/layers/*.safetensors.
// Errors name the file and the tensor. Layers are files of their own, so the
// table may be split differently from the run that wrote the checkpoint.
absl::Status LoadWeights(const std::string& folder, const ParameterTable& table,
                         float* weights);

}  // namespace gimbal::worker

// `--resume` with other stages: the run of the folder goes over to them at its
// newest good checkpoint. No file of the checkpoint changes: whoever loads the
// cut `pipeline.origin` reads only weights and optimizer state.
//
// What counts is the store, which changes in one transaction. config.yaml is
// written before it, so a run that is killed in between goes over again when it
// is resumed, at the same checkpoint.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/store/run_store.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// Of the run `identity` in `run_dir`, whose lock is held, from the config
// `held` to the stages of `wanted`: the config with its origin. The decision is
// in the store only. Without a checkpoint the run begins at
// update 0 with the new stages. DATA_LOSS when committed checkpoints or rows
// are not there any more; then nothing was changed.
absl::StatusOr<v1::RunConfig> GoOver(const std::string& run_dir,
                                     const RunIdentity& identity,
                                     const v1::RunConfig& wanted,
                                     const v1::RunConfig& held,
                                     RunStore& store);

}  // namespace gimbal::coordinator

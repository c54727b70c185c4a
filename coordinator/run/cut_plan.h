// What happens at the cut after an update, as the config says. Pure.
#pragma once

#include <cstdint>

#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// Evaluation every eval.every updates and after the last one of the config, if
// there is held-out data: never where only this part of the run ends, so that a
// run that goes on later shows the same numbers. Snapshot every
// checkpoint.every updates, after `final_update`, and when `requested`: these
// two may be an end of the run, beyond which nothing starts, so no snapshot of
// them is kept in memory, as otherwise every cluster.peer_snapshot_every
// updates.
v1::Cut CutAt(const v1::RunConfig& config, int64_t update, int64_t final_update,
              bool requested);

}  // namespace gimbal::coordinator

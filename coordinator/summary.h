// RUN_DIR/summary.json: what came of a run.
#pragma once

#include <string>
#include <vector>

#include "coordinator/run/recovery.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

// From the last status of the run; deploy/operations.md has the keys.
// `final_loss` and `valid_loss` are null when
// there is none; moments in `recoveries` are on the clock of metrics.jsonl.
std::string SummaryJson(const v1::GetStatusResponse& status,
                        const std::vector<Recovery>& recoveries,
                        int64_t coordinator_peak_rss_bytes);

}  // namespace gimbal::coordinator

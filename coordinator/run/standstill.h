// Who holds a run up. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

// Of a run that should be training and has made no update for `seconds`: the
// stage that the others wait for and what it does or waits for itself, e.g.
// "no update for 7 s: stage 2 (worker-1, pid 4711) is silent for 6.8 s".
// `missing` is the MissingText of stages without a worker; empty: there is
// none.
std::string Standstill(const v1::GetStatusResponse& status, double seconds,
                       const std::string& missing);

// "stage 2 has no worker (w3 was lost: its connection ended); 3 of 4 workers
// are there". `lost`: what became of the last one; may be empty.
std::string MissingText(const std::vector<int>& vacant_stages,
                        const std::string& lost, size_t there, size_t needed);

}  // namespace gimbal::coordinator

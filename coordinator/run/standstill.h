// Who holds a run up. Pure.
#pragma once

#include <string>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

// Of a run that should be training and has made no update for `seconds`: the
// stage that the others wait for and what it does or waits for itself, e.g.
// "no update for 7 s: stage 2 (worker-1, pid 4711) is silent for 6.8 s".
std::string Standstill(const v1::GetStatusResponse& status, double seconds);

}  // namespace gimbal::coordinator

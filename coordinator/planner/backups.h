// Which worker keeps another one's snapshots. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gimbal::coordinator {

// For each worker that has a slot, another one that has: half of the pipeline
// further on, so that neighbours, which often share a machine or a switch, can
// be lost together; and the next one from there that is on another machine, if
// there is one. 0 for a worker that is alone. `slots` as in slots.h, none
// vacant; `machines` by worker.
std::map<int64_t, int64_t> BackupsOf(
    const std::vector<int64_t>& slots,
    const std::map<int64_t, std::string>& machines);

}  // namespace gimbal::coordinator

// Which worker takes which slot. A slot is a group of consecutive stages; with
// fewer workers than slots some take several. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace gimbal::coordinator {

// `slots` by the workers that have them (0: vacant), `alive` by id. Who is
// alive keeps what it has; workers without a slot take the vacant ones, then
// those with the fewest slots do, and among these a neighbour, so that an edge
// stays within a worker. Requires a worker.
std::vector<int64_t> FillSlots(std::vector<int64_t> slots,
                               const std::vector<int64_t>& alive);

// Gives workers without a slot one from those that have most, as long as that
// evens the numbers out. The same when nobody is idle or nobody has two.
std::vector<int64_t> SpreadSlots(std::vector<int64_t> slots,
                                 const std::vector<int64_t>& alive);

}  // namespace gimbal::coordinator

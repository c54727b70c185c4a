#include "coordinator/layout/void_updates.h"

#include <limits>
#include <vector>

#include "common/base/status_macros.h"

namespace gimbal::coordinator {

absl::StatusOr<int64_t> LastUpdateNotVoid(RunStore& store) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<LeftOut> decisions,
                          store.LeftOuts());
  GIMBAL_ASSIGN_OR_RETURN(const int64_t generation, store.Count("generation"));
  // Going back begins a generation.
  if (decisions.empty() || decisions.back().generation < generation) {
    return std::numeric_limits<int64_t>::max();
  }
  return decisions.back().first - 1;
}

}  // namespace gimbal::coordinator

// How many basis refreshes a stage has made: a function of the config and the
// updates done, so it needs no counter that survives. Pure.
#pragma once

#include <cstdint>

#include "gimbal/v1/run_config.pb.h"
#include "worker/optim/refresh.h"

namespace gimbal::coordinator {

// Updates 1 to `updates` for which worker::RefreshDue holds, without a loop
// over them; 0 for an optimizer without bases.
inline int64_t RefreshesDone(const v1::RunConfig& config, int64_t updates) {
  const v1::OptimizerSection& optimizer = config.optimizer();
  if (optimizer.name() != v1::OPTIMIZER_NAME_BASIS_ROTATION || updates == 0) {
    return 0;
  }
  const int period = optimizer.rotation().period();
  const bool cold_start_between = worker::RefreshDue(1, period) && period > 1;
  return updates / period + (cold_start_between ? 1 : 0);
}

}  // namespace gimbal::coordinator

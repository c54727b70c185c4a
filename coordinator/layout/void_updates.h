// What a guard's decision has made void though nobody has gone back yet: the
// process that decided ended too soon.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "coordinator/store/run_store.h"

namespace gimbal::coordinator {

// Checkpoints beyond this update do not count; the largest number when all do.
absl::StatusOr<int64_t> LastUpdateNotVoid(RunStore& store);

}  // namespace gimbal::coordinator

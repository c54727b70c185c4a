// The store of real runs: RUN_DIR/coordinator.db, in WAL mode. The schema is
// that of sqlite_run_store.cc; its number stands in PRAGMA user_version, and a
// file of another number is refused.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/store/run_store.h"

namespace gimbal::coordinator {

// Opens or creates the file.
absl::StatusOr<std::unique_ptr<RunStore>> OpenSqliteRunStore(
    const std::string& path);

}  // namespace gimbal::coordinator

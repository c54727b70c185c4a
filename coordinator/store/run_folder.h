// A run folder that this process has taken: locked, its store and files open.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/store/event_file.h"
#include "coordinator/store/metrics_file.h"
#include "coordinator/store/run_lock.h"
#include "coordinator/store/run_store.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// A new run of the config and data. Tells two runs of one config apart.
RunIdentity NewIdentity(const v1::RunConfig& config, const std::string& data);

struct RunFolder {
  // Takes the folder for this config and data (a fingerprint, one line per use
  // of data): makes it when missing, locks it, and only then writes config.yaml
  // and removes the coordinator.json of a coordinator that was killed. A run
  // that is resumed with other stages goes over to them (layout/go_over.h).
  //   ALREADY_EXISTS       another coordinator runs it, or it holds a run and
  //                        `resume` is false
  //   FAILED_PRECONDITION  it holds a run of another config (the first key that
  //                        differs is named) or on other data, or a run begins
  //                        with an origin
  //   DATA_LOSS            no checkpoint is left to go over from, or the store
  //                        has forgotten what events.jsonl knows of
  // A folder without a run may be resumed: the run starts at update 0.
  static absl::StatusOr<RunFolder> Take(const std::string& run_dir,
                                        const v1::RunConfig& config,
                                        const std::string& data, bool resume);
  // Whether a run was ever taken up in the folder.
  static bool HoldsRun(const std::string& run_dir);

  std::string run_dir;
  v1::RunConfig config;  // that counts: as given, its layout as it is held
  RunLock lock;
  RunIdentity identity;
  std::unique_ptr<RunStore> store;
  MetricsFile metrics;
  EventFile events;
};

}  // namespace gimbal::coordinator

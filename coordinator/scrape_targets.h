// RUN_DIR/prometheus-targets.json: where the metrics of a run are to be
// scraped, in the form of Prometheus' file-based discovery (`file_sd_configs`).
// It is replaced in one piece whenever a worker comes or goes.
//
// Labels of a target: `job` (gimbal-coordinator, gimbal-worker), `run` (the
// run's id) and `instance` (`RUN/coordinator`, `RUN/NAME`): names instead of
// addresses, so that a worker that is started again goes on with its series.
#pragma once

#include <string>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

// The file's content. Once the run is over its workers are gone; the
// coordinator of a run that failed stays a target, so that its absence is
// noticed. Of several workers with one name all but the first get their number.
std::string ScrapeTargetsJson(const v1::GetStatusResponse& status,
                              const std::string& coordinator_metrics_address);

// Not thread-safe.
class ScrapeTargets {
 public:
  ScrapeTargets(const std::string& run_dir, std::string metrics_address)
      : path_(run_dir + "/prometheus-targets.json"),
        metrics_address_(std::move(metrics_address)) {}

  // Writes the file when its content is another one. What goes wrong is a
  // warning, once.
  void Publish(const v1::GetStatusResponse& status);

 private:
  const std::string path_;
  const std::string metrics_address_;
  std::string written_;
  bool warned_ = false;
};

}  // namespace gimbal::coordinator

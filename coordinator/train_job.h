// Tells Kubeflow Trainer how far the run is: status.trainerStatus of the
// TrainJob whose pod this is (Kubeflow's KEP-2779, Trainer 2.2). Trainer offers
// it to a pod by its environment, which is what switches it on:
//
//   KUBEFLOW_TRAINER_SERVER_URL      where to POST
//   KUBEFLOW_TRAINER_SERVER_CA_CERT  file: whom to trust
//   KUBEFLOW_TRAINER_SERVER_TOKEN    file: bearer token, which Trainer renews
//
// What goes wrong is a warning, once per change, and of no consequence.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

struct TrainJobServer {
  std::string url;
  std::string ca_file;     // empty: the system's
  std::string token_file;  // empty: no token

  // Nothing when no server is offered.
  static std::optional<TrainJobServer> FromEnvironment();
};

// The body of a report: whole percents, whole seconds, the newest losses.
std::string TrainJobStatusJson(const v1::GetStatusResponse& status,
                               double unix_seconds);

class TrainJobReporter {
 public:
  explicit TrainJobReporter(TrainJobServer server,
                            base::Seconds interval = base::Seconds(5));
  // Reports the last status, for up to two seconds.
  ~TrainJobReporter();

  // Of the statuses since the last report the newest is told. Never waits.
  // Thread-safe.
  void Publish(const v1::GetStatusResponse& status);

 private:
  void Loop();
  absl::Status Send(const std::string& body, base::Seconds patience) const;

  const TrainJobServer server_;
  const base::Seconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<v1::GetStatusResponse> newest_;  // not told yet
  bool over_ = false;
  std::thread thread_;
};

}  // namespace gimbal::coordinator

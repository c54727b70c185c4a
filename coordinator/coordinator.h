// The coordinator of one run: owns everything in the order of dependence, and
// is what main() and tests start.
//
//   GIMBAL_ASSIGN_OR_RETURN(auto coordinator, Coordinator::Start(options));
//   coordinator->RequestStop("signal TERM");   // from any thread
//   int exit_code = coordinator->Wait();
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

class Coordinator {
 public:
  struct Options {
    v1::RunConfig config;  // resolved
    std::string run_dir;
    bool resume = false;
    int workers = 0;  // 0: one per stage
    // Host that coordinator.json tells instead of that of cluster.listen.
    std::string advertise;
  };

  // Binds its ports (cluster.listen, cluster.metrics_listen), takes the run
  // folder and serves; RUN_DIR/coordinator.json then says where. Until the
  // ports are bound and the data was read nothing is written.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(Options options);
  // Ends at once, without a checkpoint, unless Wait has returned.
  ~Coordinator();

  // host:port of gRPC.
  const std::string& address() const;
  const std::string& metrics_address() const;

  // Stops the run at a checkpoint soon. Thread-safe.
  void RequestStop(const std::string& reason);

  // Waits until the run is over and shuts down in order; those who watch are
  // first told the end, for up to two seconds, and of a run that failed whoever
  // scrapes the metrics at least every 20 s may do so once more. The process's
  // exit code: 0 completed, 3 failed, 4 ended early at a checkpoint.
  int Wait();

 private:
  struct Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::coordinator

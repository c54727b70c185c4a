// A registry of Prometheus metrics and the HTTP server that shows it at
// /metrics.
//
//   GIMBAL_ASSIGN_OR_RETURN(auto metrics,
//                           obs::MetricsServer::Start("127.0.0.1:0"));
//   auto& family = prometheus::BuildGauge().Name("gimbal_train_loss")
//                      .Register(metrics->registry());
//
// A daemon keeps its metrics in one struct of its own (coordinator/metrics.h,
// worker/metrics.h). Names, units and labels are those of the design: prefix
// `gimbal_`, base units, labels with few values.
//
// Thread-safe; metrics live as long as the server object.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
class Registry;
}  // namespace prometheus

namespace gimbal::obs {

class MetricsServer {
 public:
  // `address` is host:port; port 0 picks a free one. UNAVAILABLE, naming the
  // address, when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address);
  ~MetricsServer();

  prometheus::Registry& registry() { return *registry_; }
  const std::string& address() const { return address_; }

 private:
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer,
                std::string address);

  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string address_;
};

}  // namespace gimbal::obs

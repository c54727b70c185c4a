// Every Prometheus metric of the coordinator; names as in the design. A series
// appears with its first value: nothing is exported as a placeholder.
//
// Thread-safe as far as prometheus-cpp is; fed by the loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "coordinator/ledger/metrics_row.h"
#include "coordinator/run/run_effects.h"
#include "gimbal/v1/admin_service.pb.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace gimbal::coordinator {

class CoordinatorMetrics {
 public:
  // `run` is the label of every series: the run's id, as workers have it; names
  // may repeat in a cluster. The registry must outlive this.
  CoordinatorMetrics(prometheus::Registry& registry, std::string run,
                     int64_t tokens_per_update);

  void OnRow(const MetricsRow& row);
  void OnLeftOut(const LeftOut& left_out);
  void OnStatus(const v1::GetStatusResponse& status);
  void OnRestart(int stage, Loss loss);
  void OnCheckpoint(int64_t bytes, double seconds, double unix_seconds);
  void OnCheckpointFailure();

 private:
  using Labels = std::map<std::string, std::string>;
  Labels Run() const { return {{"run", run_}}; }
  Labels Stage(size_t stage) const;

  const std::string run_;
  const double tokens_per_update_;
  prometheus::Family<prometheus::Gauge>& loss_;
  prometheus::Family<prometheus::Gauge>& valid_loss_;
  prometheus::Family<prometheus::Gauge>& grad_norm_;
  prometheus::Family<prometheus::Gauge>& learning_rate_;
  prometheus::Family<prometheus::Counter>& tokens_;
  prometheus::Family<prometheus::Counter>& not_finite_;
  prometheus::Family<prometheus::Counter>& skipped_;
  prometheus::Family<prometheus::Gauge>& staleness_;
  prometheus::Family<prometheus::Histogram>& staleness_histogram_;
  prometheus::Family<prometheus::Gauge>& weight_version_;
  prometheus::Family<prometheus::Gauge>& basis_period_;
  prometheus::Family<prometheus::Gauge>& basis_offdiagonal_;
  prometheus::Family<prometheus::Gauge>& basis_orthogonality_;
  prometheus::Family<prometheus::Counter>& updates_;
  prometheus::Family<prometheus::Counter>& restarts_;
  prometheus::Family<prometheus::Gauge>& run_state_;
  prometheus::Family<prometheus::Gauge>& workers_;
  prometheus::Family<prometheus::Histogram>& checkpoint_duration_;
  prometheus::Family<prometheus::Gauge>& checkpoint_bytes_;
  prometheus::Family<prometheus::Gauge>& checkpoint_success_;
  prometheus::Family<prometheus::Counter>& checkpoint_failures_;
};

}  // namespace gimbal::coordinator

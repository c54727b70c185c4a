#include "coordinator/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "coordinator/run/run_state.h"

namespace gimbal::coordinator {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Histogram;
using prometheus::Registry;

auto& MakeGauge(Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}

auto& MakeCounter(Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry);
}

auto& MakeHistogram(Registry& registry, const char* name, const char* help) {
  return BuildHistogram().Name(name).Help(help).Register(registry);
}

const char* NameOf(Loss loss) {
  switch (loss) {
    case Loss::kConnection:
      return "connection";
    case Loss::kLease:
      return "lease";
    case Loss::kLink:
      return "link";
  }
  return "";
}

const Histogram::BucketBoundaries kStalenessBuckets = {0, 1,  2,  3,  4,  6,
                                                       8, 12, 16, 24, 32, 64};
const Histogram::BucketBoundaries kCheckpointSeconds = {0.01, 0.03, 0.1, 0.3, 1,
                                                        3,    10,   30,  100};

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(Registry& registry, std::string run,
                                       int64_t tokens_per_update)
    : run_(std::move(run)),
      tokens_per_update_(static_cast<double>(tokens_per_update)),
      loss_(MakeGauge(registry, "gimbal_train_loss",
                      "Mean loss of the newest update")),
      valid_loss_(MakeGauge(registry, "gimbal_valid_loss",
                            "Newest loss on held-out data")),
      grad_norm_(MakeGauge(registry, "gimbal_train_grad_norm",
                           "Gradient norm over all stages, before clipping")),
      learning_rate_(MakeGauge(registry, "gimbal_train_learning_rate",
                               "Learning rate of the newest update")),
      tokens_(MakeCounter(registry, "gimbal_train_tokens_total",
                          "Tokens trained on, repeated work included")),
      not_finite_(MakeCounter(registry, "gimbal_train_nonfinite_total",
                              "Minibatches left out because of a loss, "
                              "gradient or weight that was not finite")),
      skipped_(MakeCounter(registry, "gimbal_train_skipped_updates_total",
                           "Updates whose minibatches were left out")),
      staleness_(MakeGauge(registry, "gimbal_stage_staleness_updates",
                           "Measured staleness of the newest update")),
      staleness_histogram_(MakeHistogram(registry, "gimbal_stage_staleness",
                                         "Measured staleness of all updates")),
      weight_version_(MakeGauge(registry, "gimbal_stage_weight_version",
                                "Newest update applied")),
      basis_period_(MakeGauge(registry, "gimbal_stage_basis_period_updates",
                              "Updates between two basis refreshes")),
      basis_offdiagonal_(
          MakeGauge(registry, "gimbal_stage_basis_offdiagonal_ratio",
                    "How far the gradient's statistics had moved away from "
                    "the worst basis when it was last refreshed; 0: aligned")),
      basis_orthogonality_(
          MakeGauge(registry, "gimbal_stage_basis_orthogonality_error",
                    "Deviation of the worst basis from orthonormality")),
      updates_(MakeCounter(registry, "gimbal_stage_updates_total",
                           "Updates done, repeated work included")),
      restarts_(MakeCounter(registry, "gimbal_stage_restarts_total",
                            "Times the stage had to start again")),
      run_state_(MakeGauge(registry, "gimbal_run_state",
                           "1 for the state that the run is in")),
      workers_(MakeGauge(registry, "gimbal_workers", "Workers by state")),
      checkpoint_duration_(
          MakeHistogram(registry, "gimbal_checkpoint_duration_seconds",
                        "From the cut to the last byte, slowest stage")),
      checkpoint_bytes_(MakeGauge(registry, "gimbal_checkpoint_bytes",
                                  "Size of the newest checkpoint")),
      checkpoint_success_(MakeGauge(
          registry, "gimbal_checkpoint_last_success_timestamp_seconds",
          "When the newest checkpoint was committed")),
      checkpoint_failures_(MakeCounter(registry,
                                       "gimbal_checkpoint_failures_total",
                                       "Checkpoints that were given up")) {
  checkpoint_failures_.Add(Run());
}

CoordinatorMetrics::Labels CoordinatorMetrics::Stage(size_t stage) const {
  return {{"run", run_}, {"stage", std::to_string(stage)}};
}

void CoordinatorMetrics::OnLeftOut(const LeftOut& left_out) {
  if (left_out.kind == "nan") not_finite_.Add(Run()).Increment();
  Labels labels = Run();
  labels["reason"] = left_out.kind;
  skipped_.Add(labels).Increment(
      static_cast<double>(left_out.last - left_out.first + 1));
}

void CoordinatorMetrics::OnRow(const MetricsRow& row) {
  if (row.left_out.empty()) {
    loss_.Add(Run()).Set(row.loss);
    grad_norm_.Add(Run()).Set(row.grad_norm);
  }
  learning_rate_.Add(Run()).Set(row.lr);
  tokens_.Add(Run()).Increment(tokens_per_update_);
  if (row.valid_loss.has_value()) valid_loss_.Add(Run()).Set(*row.valid_loss);
  for (size_t stage = 0; stage < row.staleness.size(); ++stage) {
    const double staleness = static_cast<double>(row.staleness[stage]);
    staleness_.Add(Stage(stage)).Set(staleness);
    staleness_histogram_.Add(Stage(stage), kStalenessBuckets)
        .Observe(staleness);
    updates_.Add(Stage(stage)).Increment();
  }
}

void CoordinatorMetrics::OnStatus(const v1::GetStatusResponse& status) {
  for (int state = v1::RUN_STATE_PENDING; state <= v1::RunState_MAX; ++state) {
    const std::string name =
        absl::AsciiStrToLower(ShortName(static_cast<v1::RunState>(state)));
    run_state_.Add({{"run", run_}, {"state", name}})
        .Set(state == status.state() ? 1 : 0);
  }
  for (const v1::StageView& stage : status.stages()) {
    weight_version_.Add(Stage(stage.stage()))
        .Set(static_cast<double>(stage.weight_version()));
    if (stage.has_refresh_period()) {
      basis_period_.Add(Stage(stage.stage())).Set(stage.refresh_period());
    }
    if (stage.has_basis()) {
      basis_offdiagonal_.Add(Stage(stage.stage()))
          .Set(stage.basis().offdiagonal_ratio());
      basis_orthogonality_.Add(Stage(stage.stage()))
          .Set(stage.basis().orthogonality_error());
    }
  }
  std::map<std::string, int> counts = {{"joining", 0},
                                       {"loading", 0},
                                       {"training", 0},
                                       {"finished", 0},
                                       {"spare", 0}};
  for (const v1::WorkerView& worker : status.workers()) {
    ++counts[worker.state()];
  }
  for (const auto& [state, count] : counts) {
    workers_.Add({{"run", run_}, {"state", state}}).Set(count);
  }
}

void CoordinatorMetrics::OnRestart(int stage, Loss loss) {
  Labels labels = Stage(stage);
  labels["reason"] = NameOf(loss);
  restarts_.Add(labels).Increment();
}

void CoordinatorMetrics::OnCheckpoint(int64_t bytes, double seconds,
                                      double unix_seconds) {
  checkpoint_duration_.Add(Run(), kCheckpointSeconds).Observe(seconds);
  checkpoint_bytes_.Add(Run()).Set(static_cast<double>(bytes));
  checkpoint_success_.Add(Run()).Set(unix_seconds);
}

void CoordinatorMetrics::OnCheckpointFailure() {
  checkpoint_failures_.Add(Run()).Increment();
}

}  // namespace gimbal::coordinator

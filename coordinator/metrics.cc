#include "coordinator/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/base/duration.h"
#include "common/base/process.h"
#include "common/rpc/call_metrics.h"
#include "coordinator/metric_maker.h"
#include "coordinator/run/run_state.h"
#include "gimbal/v1/checkpoint_service.pb.h"
#include "gimbal/v1/control_service.pb.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {
namespace {

using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using Total = prometheus::Counter;  // coordinator::Counter is another thing
using Maker = MetricMaker;

const Buckets kStaleness = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
const Buckets kCheckpointSeconds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
const Buckets kRecoverySeconds = {0.1, 0.3, 1, 3, 10, 30, 100, 300};
std::string StateLabel(v1::RunState state) {
  return absl::AsciiStrToLower(ShortName(state));
}

}  // namespace

struct CoordinatorMetrics::Impl {
  using Late = std::function<void(double)>;

  struct Stage {
    Gauge *delay, *weight_version, *restarts_left;
    Late staleness, period, offdiagonal, orthogonality, heartbeat_age;
    std::optional<double> heard;  // of its worker, in Unix seconds
    Histogram *staleness_histogram, *recovery;
    Total* updates;
    std::map<Loss, Total*> restarts;
  };

  Impl(prometheus::Registry& registry, const std::string& run,
       const v1::RunConfig& config);
  void MakeTraining(Maker& maker);
  void MakeStage(Maker& maker, int number);
  void MakeControl(Maker& maker);
  void MakeCheckpoints(Maker& maker);

  const v1::RunConfig config;
  const double tokens_per_update;
  std::vector<Stage> stages;
  Late loss, valid_loss, grad_norm, learning_rate, update;
  int64_t shown_update = 0;  // of the newest status
  Gauge* final_update = nullptr;
  Total *tokens = nullptr, *not_finite = nullptr;
  std::map<std::string, Total*> skipped;  // by LeftOut::kind
  std::map<v1::RunState, Gauge*> run_state;
  std::map<std::string, Gauge*> workers;  // by state
  Gauge* resident = nullptr;
  Total *refresh_changes = nullptr, *decisions = nullptr;
  rpc::CallMetrics calls;
  std::map<std::string, Late> startup;  // by phase
  Histogram* checkpoint_seconds = nullptr;
  Late checkpoint_bytes, checkpoint_time, checkpoint_update;
  Total* checkpoint_failures = nullptr;
};

CoordinatorMetrics::Impl::Impl(prometheus::Registry& registry,
                               const std::string& run,
                               const v1::RunConfig& config)
    : config(config),
      tokens_per_update(static_cast<double>(worker::TokensPerUpdate(config))),
      calls(registry, run,
            {v1::RegisterRequest::descriptor()->file(),
             v1::GetStatusRequest::descriptor()->file(),
             v1::PutHeader::descriptor()->file()}) {
  Maker maker(registry, run);
  MakeTraining(maker);
  for (int stage = 0; stage < config.pipeline().stages(); ++stage) {
    MakeStage(maker, stage);
  }
  MakeControl(maker);
  MakeCheckpoints(maker);
}

void CoordinatorMetrics::Impl::MakeTraining(Maker& maker) {
  loss = maker.MakeLate("gimbal_train_loss", "Mean loss of the newest update");
  valid_loss =
      maker.MakeLate("gimbal_valid_loss", "Newest loss on held-out data");
  grad_norm = maker.MakeLate("gimbal_train_grad_norm",
                             "Gradient norm over all stages, before clipping");
  learning_rate = maker.MakeLate("gimbal_train_learning_rate",
                                 "Learning rate of the newest update");
  update = maker.MakeLate("gimbal_train_update",
                          "Newest update that all stages have done");
  final_update = maker.MakeGauge("gimbal_train_final_update",
                                 "Last update of the whole run");
  final_update->Set(static_cast<double>(config.run().steps()));
  tokens = maker.MakeCounter("gimbal_train_tokens_total",
                             "Tokens trained on, repeated work included");
  not_finite = maker.MakeCounter("gimbal_train_nonfinite_total",
                                 "Minibatches with a loss, gradient or weight "
                                 "that was not finite");
  for (const char* reason : {"nan", "loss_spike"}) {
    skipped[reason] =
        maker.MakeCounter("gimbal_train_skipped_updates_total",
                          "Updates whose minibatches were left out, by reason",
                          {{"reason", reason}});
  }
  refresh_changes = maker.MakeCounter("gimbal_refresh_plan_changes_total",
                                      "Changes of the plan of basis refreshes");
  if (config.optimizer().name() != v1::OPTIMIZER_NAME_BASIS_ROTATION) return;
  maker
      .MakeGauge("gimbal_basis_orthogonality_limit",
                 "Orthogonality error beyond which a basis is "
                 "orthonormalised once more")
      ->Set(config.optimizer().rotation().max_orthogonality_error());
}

void CoordinatorMetrics::Impl::MakeStage(Maker& maker, int number) {
  const Maker::Labels labels = {{"stage", std::to_string(number)}};
  Stage stage;
  stage.delay = maker.MakeGauge("gimbal_stage_delay_updates",
                                "Staleness that the schedule leads to", labels);
  stage.staleness =
      maker.MakeLate("gimbal_stage_staleness_updates",
                     "Measured staleness of the newest update", labels);
  stage.staleness_histogram = maker.MakeHistogram(
      "gimbal_stage_staleness", "Measured staleness of all updates", kStaleness,
      labels);
  stage.weight_version = maker.MakeGauge("gimbal_stage_weight_version",
                                         "Newest update applied", labels);
  stage.updates =
      maker.MakeCounter("gimbal_stage_updates_total",
                        "Updates done, repeated work included", labels);
  stage.period = maker.MakeLate("gimbal_stage_basis_period_updates",
                                "Updates between two basis refreshes", labels);
  stage.offdiagonal =
      maker.MakeLate("gimbal_stage_basis_offdiagonal_ratio",
                     "How far the gradient's statistics had moved away from "
                     "the worst basis when it was last refreshed; 0: aligned",
                     labels);
  stage.orthogonality = maker.MakeLate(
      "gimbal_stage_basis_orthogonality_error",
      "Deviation of the worst basis from orthonormality", labels);
  stage.heartbeat_age =
      maker.MakeLate("gimbal_stage_heartbeat_age_seconds",
                     "Since the stage's worker was last heard of; it goes on "
                     "while nobody hosts the stage",
                     labels);
  stage.restarts_left = maker.MakeGauge(
      "gimbal_stage_restarts_left",
      "Restarts before cluster.restart_budget is used up", labels);
  stage.restarts_left->Set(config.cluster().restart_budget());
  stage.recovery = maker.MakeHistogram(
      "gimbal_stage_recovery_seconds",
      "From the detection of a loss until all stages run again; the first "
      "stage concerned",
      kRecoverySeconds, labels);
  for (const Loss reason : kLosses) {
    Maker::Labels with_reason = labels;
    with_reason["reason"] = NameOf(reason);
    stage.restarts[reason] =
        maker.MakeCounter("gimbal_stage_restarts_total",
                          "Times the stage had to start again, by what was "
                          "lost",
                          with_reason);
  }
  stages.push_back(std::move(stage));
}

void CoordinatorMetrics::Impl::MakeControl(Maker& maker) {
  for (int state = v1::RUN_STATE_PENDING; state <= v1::RunState_MAX; ++state) {
    const auto value = static_cast<v1::RunState>(state);
    run_state[value] = maker.MakeGauge("gimbal_run_state",
                                       "1 for the state that the run is in",
                                       {{"state", StateLabel(value)}});
  }
  for (const char* state :
       {"joining", "waiting", "loading", "training", "finished", "spare"}) {
    workers[state] = maker.MakeGauge("gimbal_workers", "Workers by state",
                                     {{"state", state}});
  }
  maker.MakeGauge("gimbal_lease_seconds", "cluster.lease")
      ->Set(base::SecondsOf(config.cluster().lease()).count());
  resident = maker.MakeGauge("gimbal_process_resident_bytes",
                             "Resident memory of the process");
  decisions = maker.MakeCounter("gimbal_decisions_total",
                                "Decisions written to events.jsonl");
  for (const char* phase : {"serve", "train"}) {
    startup[phase] = maker.MakeLate("gimbal_startup_seconds",
                                    "Time that the newest start took, by phase",
                                    {{"phase", phase}});
  }
}

void CoordinatorMetrics::Impl::MakeCheckpoints(Maker& maker) {
  checkpoint_seconds = maker.MakeHistogram(
      "gimbal_checkpoint_duration_seconds",
      "From the cut to the last byte, slowest stage", kCheckpointSeconds);
  checkpoint_bytes = maker.MakeLate("gimbal_checkpoint_bytes",
                                    "Size of the newest checkpoint");
  checkpoint_time =
      maker.MakeLate("gimbal_checkpoint_last_success_timestamp_seconds",
                     "When the newest checkpoint was committed");
  checkpoint_update = maker.MakeLate("gimbal_checkpoint_update",
                                     "Update of the newest checkpoint");
  checkpoint_failures = maker.MakeCounter("gimbal_checkpoint_failures_total",
                                          "Checkpoints that were given up");
  if (config.checkpoint().every() == 0) return;
  maker.MakeGauge("gimbal_checkpoint_interval_updates", "checkpoint.every")
      ->Set(static_cast<double>(config.checkpoint().every()));
}

CoordinatorMetrics::CoordinatorMetrics(prometheus::Registry& registry,
                                       const std::string& run,
                                       const v1::RunConfig& config)
    : impl_(std::make_unique<Impl>(registry, run, config)) {}
CoordinatorMetrics::~CoordinatorMetrics() = default;

void CoordinatorMetrics::OnLeftOut(const LeftOut& left_out) {
  impl_->skipped.at(left_out.kind)
      ->Increment(static_cast<double>(left_out.last - left_out.first + 1));
}

void CoordinatorMetrics::OnNotFinite() { impl_->not_finite->Increment(); }

void CoordinatorMetrics::OnRow(const MetricsRow& row) {
  impl_->tokens->Increment(impl_->tokens_per_update);
  // What is done again is no progress.
  if (row.step >= impl_->shown_update) {
    if (row.left_out.empty()) {
      impl_->loss(row.loss);
      impl_->grad_norm(row.grad_norm);
    }
    impl_->learning_rate(row.lr);
    impl_->update(static_cast<double>(row.step));
    if (row.valid_loss.has_value()) impl_->valid_loss(*row.valid_loss);
  }
  const size_t count = std::min(row.staleness.size(), impl_->stages.size());
  for (size_t i = 0; i < count; ++i) {
    const auto staleness = static_cast<double>(row.staleness[i]);
    impl_->stages[i].staleness(staleness);
    impl_->stages[i].staleness_histogram->Observe(staleness);
    impl_->stages[i].updates->Increment();
  }
}

void CoordinatorMetrics::OnStatus(const v1::GetStatusResponse& status) {
  impl_->shown_update = status.update();
  if (status.update() > 0) {
    impl_->update(static_cast<double>(status.update()));
  }
  if (status.has_loss()) impl_->loss(status.loss());
  if (status.has_valid_loss()) impl_->valid_loss(status.valid_loss());
  for (const auto& [state, gauge] : impl_->run_state) {
    gauge->Set(state == status.state() ? 1 : 0);
  }
  std::map<std::string, int> counts;
  for (const v1::WorkerView& worker : status.workers()) {
    ++counts[worker.state()];
    for (const int stage : worker.stages()) {
      impl_->stages[stage].heard =
          status.unix_seconds() - worker.heartbeat_age_seconds();
    }
  }
  for (const auto& [state, gauge] : impl_->workers) gauge->Set(counts[state]);
  for (const v1::StageView& view : status.stages()) {
    Impl::Stage& stage = impl_->stages[view.stage()];
    stage.delay->Set(static_cast<double>(view.delay_expected()));
    stage.weight_version->Set(static_cast<double>(view.weight_version()));
    if (stage.heard) {
      stage.heartbeat_age(std::max(0.0, status.unix_seconds() - *stage.heard));
    }
    if (view.has_refresh_period()) stage.period(view.refresh_period());
    if (!view.has_basis()) continue;
    stage.offdiagonal(view.basis().offdiagonal_ratio());
    stage.orthogonality(view.basis().orthogonality_error());
  }
  impl_->resident->Set(static_cast<double>(base::RssBytes()));
}

void CoordinatorMetrics::OnRestart(int stage, Loss loss) {
  impl_->stages[stage].restarts.at(loss)->Increment();
  Gauge& left = *impl_->stages[stage].restarts_left;
  left.Set(std::max(0.0, left.Value() - 1));
}

void CoordinatorMetrics::RestoreRestarts(int stage, Loss loss, int64_t count) {
  impl_->stages[stage].restarts.at(loss)->Increment(static_cast<double>(count));
}

void CoordinatorMetrics::RestoreEvents(const EventCounts& counts) {
  impl_->decisions->Increment(static_cast<double>(counts.decisions));
  impl_->refresh_changes->Increment(
      static_cast<double>(counts.refresh_changes));
  impl_->not_finite->Increment(static_cast<double>(counts.not_finite));
  impl_->checkpoint_failures->Increment(
      static_cast<double>(counts.checkpoint_failures));
}

void CoordinatorMetrics::OnRecovery(int stage, double seconds) {
  impl_->stages[stage].recovery->Observe(seconds);
}

void CoordinatorMetrics::OnRefreshChange() {
  impl_->refresh_changes->Increment();
}

void CoordinatorMetrics::OnDecision() { impl_->decisions->Increment(); }

void CoordinatorMetrics::OnCheckpoint(const CheckpointFacts& checkpoint) {
  if (checkpoint.seconds) {
    impl_->checkpoint_seconds->Observe(*checkpoint.seconds);
  }
  impl_->checkpoint_bytes(static_cast<double>(checkpoint.bytes));
  impl_->checkpoint_time(checkpoint.unix_seconds);
  impl_->checkpoint_update(static_cast<double>(checkpoint.update));
}

void CoordinatorMetrics::OnCheckpointFailure() {
  impl_->checkpoint_failures->Increment();
}

void CoordinatorMetrics::OnCall(const std::string& method,
                                const absl::Status& status,
                                base::Seconds taken) {
  impl_->calls.OnCall(method, status, taken);
}

void CoordinatorMetrics::OnStarted(const std::string& phase,
                                   base::Seconds taken) {
  impl_->startup.at(phase)(taken.count());
}

}  // namespace gimbal::coordinator

#include "worker/agent/worker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <utility>

namespace gimbal::worker {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Labels;
using prometheus::Registry;

Family<Gauge>& NewGauge(Registry& registry, const std::string& name,
                        const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Family<Counter>& NewCounter(Registry& registry, const std::string& name,
                            const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

// Brings a counter up to a total that the stage counts itself. A stage that was
// built anew starts its total again from zero: the counter goes on.
void Raise(Counter& counter, double* seen, double total) {
  counter.Increment(total >= *seen ? total - *seen : total);
  *seen = total;
}

}  // namespace

struct WorkerMetrics::Impl {
  Impl(Registry& registry, std::string run)
      : registry(registry),
        run(std::move(run)),
        version(NewGauge(registry, "gimbal_stage_weight_version",
                         "Newest update applied to the stage's weights")),
        stash_bytes(NewGauge(registry, "gimbal_stage_stash_bytes",
                             "Memory of all weight versions")),
        stash_versions(NewGauge(registry, "gimbal_stage_stash_versions",
                                "Weight versions held")),
        memory(NewGauge(registry, "gimbal_stage_memory_bytes",
                        "Memory held by the stage, by kind")),
        microbatches(NewCounter(registry, "gimbal_stage_microbatches_total",
                                "Microbatches whose backward has run")),
        refreshes(NewCounter(registry, "gimbal_stage_basis_refreshes_total",
                             "Basis refreshes")),
        seconds(NewCounter(registry, "gimbal_stage_phase_seconds_total",
                           "Time of the stage by phase")) {}

  ~Impl() {
    for (auto* family : {&version, &stash_bytes, &stash_versions, &memory}) {
      registry.Remove(*family);
    }
    for (auto* family : {&microbatches, &refreshes, &seconds}) {
      registry.Remove(*family);
    }
  }

  Labels LabelsOf(int stage) const {
    return {{"run", run}, {"stage", std::to_string(stage)}};
  }
  void Raise(Family<Counter>& family, const Labels& labels, double total) {
    Counter& counter = family.Add(labels);
    worker::Raise(counter, &seen[&counter], total);
  }

  Registry& registry;
  const std::string run;
  Family<Gauge>&version, &stash_bytes, &stash_versions, &memory;
  Family<Counter>&microbatches, &refreshes, &seconds;
  std::map<const Counter*, double> seen;
};

WorkerMetrics::WorkerMetrics(Registry& registry, const std::string& run)
    : impl_(std::make_unique<Impl>(registry, run)) {}
WorkerMetrics::~WorkerMetrics() = default;

const std::string& WorkerMetrics::run() const { return impl_->run; }

void WorkerMetrics::Update(const std::vector<v1::StageStatus>& stages) {
  for (const v1::StageStatus& stage : stages) {
    Labels labels = impl_->LabelsOf(stage.stage());
    impl_->version.Add(labels).Set(static_cast<double>(stage.weight_version()));
    impl_->stash_bytes.Add(labels).Set(
        static_cast<double>(stage.stash_bytes()));
    impl_->stash_versions.Add(labels).Set(
        static_cast<double>(stage.stash_versions()));
    impl_->Raise(impl_->microbatches, labels,
                 static_cast<double>(stage.microbatches()));
    impl_->Raise(impl_->refreshes, labels,
                 static_cast<double>(stage.refreshes()));
    Labels kind = labels;
    kind["kind"] = "planned";
    impl_->memory.Add(kind).Set(static_cast<double>(stage.memory_bytes()));
    const v1::StageTimes& times = stage.times();
    const std::pair<const char*, double> phases[] = {
        {"forward", times.forward()},   {"backward", times.backward()},
        {"update", times.update()},     {"refresh", times.refresh()},
        {"evaluate", times.evaluate()}, {"checkpoint", times.checkpoint()},
        {"idle", times.idle()}};
    for (const auto& [phase, total] : phases) {
      Labels with_phase = labels;
      with_phase["phase"] = phase;
      impl_->Raise(impl_->seconds, with_phase, total);
    }
  }
}

}  // namespace gimbal::worker

#include "worker/agent/worker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/process.h"
#include "common/rpc/call_metrics.h"
#include "gimbal/v1/snapshot_service.pb.h"
#include "worker/pipeline/memory_plan.h"

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

// A counter that follows a total which the stage counts itself. A stage that
// was built anew starts its total again from zero: the counter goes on. A total
// that falls a little otherwise has only to catch up: what runs counts as idle
// until it ends.
struct Follower {
  Counter* counter = nullptr;
  double seen = 0;

  void Follow(double total, bool anew) {
    if (anew) seen = 0;
    if (total <= seen) return;
    counter->Increment(total - seen);
    seen = total;
  }
};

Labels With(Labels labels, const char* name, const std::string& value) {
  labels[name] = value;
  return labels;
}

constexpr std::pair<const char*, double (v1::StageTimes::*)() const> kPhases[] =
    {{"forward", &v1::StageTimes::forward},
     {"backward", &v1::StageTimes::backward},
     {"update", &v1::StageTimes::update},
     {"rotate", &v1::StageTimes::rotate},
     {"refresh", &v1::StageTimes::refresh},
     {"send", &v1::StageTimes::send},
     {"recv", &v1::StageTimes::recv},
     {"idle", &v1::StageTimes::idle},
     {"evaluate", &v1::StageTimes::evaluate},
     {"checkpoint", &v1::StageTimes::checkpoint}};

// Since the stage was built.
double SecondsOf(const v1::StageTimes& times) {
  double seconds = 0;
  for (const auto& [phase, of] : kPhases) seconds += (times.*of)();
  return seconds;
}

constexpr std::pair<const char*, int64_t StageMemory::*> kMemory[] = {
    {"weights", &StageMemory::weights},
    {"gradients", &StageMemory::gradients},
    {"optimizer", &StageMemory::optimizer},
    {"offloaded", &StageMemory::offloaded},
    {"activations", &StageMemory::activations},
    {"messages", &StageMemory::messages},
    {"snapshot", &StageMemory::snapshot},
    {"kept_snapshots", &StageMemory::kept}};

}  // namespace

struct WorkerMetrics::Impl {
  struct Series {
    Gauge *stash_bytes, *stash_versions;
    Follower microbatches, refreshes;
    std::optional<Follower> downstream, upstream;
    std::vector<Follower> phases;                 // as kPhases
    double age = 0;                               // of the stage, seconds
    std::vector<std::function<void()>> removals;  // from their families
  };

  Impl(Registry& registry, std::string run);
  ~Impl();

  template <typename Metric>
  Metric* Add(Family<Metric>& family, const Labels& labels, Series& series) {
    Metric* metric = &family.Add(labels);
    series.removals.push_back([&family, metric] { family.Remove(metric); });
    return metric;
  }
  void Show(int stage, const v1::Assignment& assignment);

  Registry& registry;
  const std::string run;
  Family<Gauge>&stash_bytes, &stash_versions, &memory, &startup, &resident;
  Family<Counter>&microbatches, &refreshes, &seconds, &edge_bytes;
  rpc::CallMetrics calls;
  std::map<int, Series> shown;  // by stage
};

WorkerMetrics::Impl::Impl(Registry& registry, std::string run)
    : registry(registry),
      run(std::move(run)),
      stash_bytes(NewGauge(registry, "gimbal_stage_stash_bytes",
                           "Memory of all weight versions")),
      stash_versions(NewGauge(registry, "gimbal_stage_stash_versions",
                              "Weight versions held")),
      memory(NewGauge(registry, "gimbal_stage_memory_bytes",
                      "Memory set aside for the stage, by kind")),
      startup(NewGauge(registry, "gimbal_startup_seconds",
                       "Time that the newest start took, by phase")),
      resident(NewGauge(registry, "gimbal_process_resident_bytes",
                        "Resident memory of the process")),
      microbatches(NewCounter(registry, "gimbal_stage_microbatches_total",
                              "Microbatches whose backward has run")),
      refreshes(NewCounter(registry, "gimbal_stage_basis_refreshes_total",
                           "Basis refreshes")),
      seconds(NewCounter(registry, "gimbal_stage_phase_seconds_total",
                         "Time of the stage by phase")),
      edge_bytes(NewCounter(registry, "gimbal_edge_bytes_total",
                            "Bytes handed to the edge between stage `edge` "
                            "and the next one, by direction")),
      calls(registry, this->run, {v1::FetchRequest::descriptor()->file()}) {}

WorkerMetrics::Impl::~Impl() {
  for (auto* family :
       {&stash_bytes, &stash_versions, &memory, &startup, &resident}) {
    registry.Remove(*family);
  }
  for (auto* family : {&microbatches, &refreshes, &seconds, &edge_bytes}) {
    registry.Remove(*family);
  }
  calls.Remove();
}

void WorkerMetrics::Impl::Show(int stage, const v1::Assignment& assignment) {
  Series& series = shown[stage];
  const Labels of_run = {{"run", run}};
  const Labels labels = With(of_run, "stage", std::to_string(stage));
  series.stash_bytes = Add(stash_bytes, labels, series);
  series.stash_versions = Add(stash_versions, labels, series);
  series.microbatches.counter = Add(microbatches, labels, series);
  series.refreshes.counter = Add(refreshes, labels, series);
  for (const auto& [phase, unused] : kPhases) {
    series.phases.push_back(
        {Add(seconds, With(labels, "phase", phase), series)});
  }
  const StageMemory plan =
      PlanStage(assignment.config(), assignment.placements(stage));
  for (const auto& [kind, bytes] : kMemory) {
    Add(memory, With(labels, "kind", kind), series)
        ->Set(static_cast<double>(plan.*bytes));
  }
  const auto edge = [&](int number, const char* direction) {
    const Labels edge = With(of_run, "edge", std::to_string(number));
    return Follower{
        Add(edge_bytes, With(edge, "direction", direction), series)};
  };
  if (stage + 1 < assignment.placements_size()) {
    series.downstream = edge(stage, "downstream");
  }
  if (stage > 0) series.upstream = edge(stage - 1, "upstream");
}

WorkerMetrics::WorkerMetrics(Registry& registry, const std::string& run)
    : impl_(std::make_unique<Impl>(registry, run)) {}
WorkerMetrics::~WorkerMetrics() = default;

const std::string& WorkerMetrics::run() const { return impl_->run; }

void WorkerMetrics::Host(const v1::Assignment& assignment) {
  const std::set<int> hosted(assignment.stages().begin(),
                             assignment.stages().end());
  std::erase_if(impl_->shown, [&](auto& shown) {
    if (hosted.contains(shown.first)) return false;
    for (const auto& remove : shown.second.removals) remove();
    return true;
  });
  for (const int stage : hosted) {
    if (!impl_->shown.contains(stage)) impl_->Show(stage, assignment);
  }
}

void WorkerMetrics::Update(const std::vector<v1::StageStatus>& stages) {
  for (const v1::StageStatus& stage : stages) {
    const auto found = impl_->shown.find(stage.stage());
    if (found == impl_->shown.end()) continue;
    Impl::Series& series = found->second;
    series.stash_bytes->Set(static_cast<double>(stage.stash_bytes()));
    series.stash_versions->Set(static_cast<double>(stage.stash_versions()));
    const double age = SecondsOf(stage.times());
    const bool anew =
        age < series.age ||
        static_cast<double>(stage.microbatches()) < series.microbatches.seen;
    series.age = age;
    series.microbatches.Follow(static_cast<double>(stage.microbatches()), anew);
    series.refreshes.Follow(static_cast<double>(stage.refreshes()), anew);
    for (size_t i = 0; i < series.phases.size(); ++i) {
      series.phases[i].Follow((stage.times().*kPhases[i].second)(), anew);
    }
    if (series.downstream) {
      series.downstream->Follow(
          static_cast<double>(stage.bytes_sent_downstream()), anew);
    }
    if (series.upstream) {
      series.upstream->Follow(static_cast<double>(stage.bytes_sent_upstream()),
                              anew);
    }
  }
}

void WorkerMetrics::OnCall(const char* method, const absl::Status& status,
                           base::Seconds taken) {
  impl_->calls.OnCall(method, status, taken);
}

void WorkerMetrics::Update(const StartSeconds& start) {
  const std::pair<const char*, double> phases[] = {
      {"register", start.registration},
      {"load", start.load},
      {"connect", start.connect}};
  for (const auto& [phase, seconds] : phases) {
    if (seconds == 0) continue;
    impl_->startup.Add({{"run", impl_->run}, {"phase", phase}}).Set(seconds);
  }
  impl_->resident.Add({{"run", impl_->run}})
      .Set(static_cast<double>(base::RssBytes()));
}

}  // namespace gimbal::worker

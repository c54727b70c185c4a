// What the metrics cost: the work per update (a row at the coordinator, the
// clocks of a stage), per status (coordinator, every tick) and per heartbeat
// (worker, twice a second).
//
//   metrics_bench --benchmark_min_time=0.5
//
// The argument is the number of stages. dashboards/README.md has the figures.
#include <benchmark/benchmark.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/config/run_config_io.h"
#include "coordinator/metrics.h"
#include "worker/agent/worker_metrics.h"

namespace gimbal {
namespace {

v1::RunConfig Config(int64_t stages) {
  return *config::ParseRunConfig(
      absl::StrCat("run: {steps: 100}\ndata: {train: corpus}\n"
                   "model: {layers: ",
                   stages,
                   ", hidden: 8, heads: 2, context: 8}\n"
                   "pipeline: {stages: ",
                   stages, "}\n"),
      "config.yaml", {});
}

void Row(benchmark::State& state) {
  prometheus::Registry registry;
  coordinator::CoordinatorMetrics metrics(registry, "demo",
                                          Config(state.range(0)));
  coordinator::MetricsRow row{.step = 1};
  row.staleness.assign(static_cast<size_t>(state.range(0)), 3);
  for (auto _ : state) metrics.OnRow(row);
}
BENCHMARK(Row)->Arg(4)->Arg(64);

void Status(benchmark::State& state) {
  prometheus::Registry registry;
  coordinator::CoordinatorMetrics metrics(registry, "demo",
                                          Config(state.range(0)));
  v1::GetStatusResponse status;
  for (int i = 0; i < state.range(0); ++i) {
    v1::StageView& stage = *status.add_stages();
    stage.set_stage(i);
    stage.set_refresh_period(10);
    stage.mutable_basis()->set_offdiagonal_ratio(0.1);
    v1::WorkerView& worker = *status.add_workers();
    worker.set_state("training");
    worker.add_stages(i);
  }
  for (auto _ : state) metrics.OnStatus(status);
}
BENCHMARK(Status)->Arg(4)->Arg(64);

v1::Assignment AssignmentOf(int64_t stages) {
  v1::Assignment assignment;
  *assignment.mutable_config() = Config(stages);
  for (int i = 0; i < stages; ++i) {
    v1::StagePlacement& placement = *assignment.add_placements();
    placement.set_stage(i);
    placement.set_first_block(i);
    placement.set_blocks(1);
    assignment.add_stages(i);
  }
  return assignment;
}

void Heartbeat(benchmark::State& state) {
  prometheus::Registry registry;
  worker::WorkerMetrics metrics(registry, "demo");
  metrics.Host(AssignmentOf(state.range(0)));
  std::vector<v1::StageStatus> statuses(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < statuses.size(); ++i) {
    statuses[i].set_stage(static_cast<int>(i));
  }
  for (auto _ : state) {
    metrics.Update(statuses);
    metrics.Update(worker::StartSeconds{1, 1, 1});
  }
}
BENCHMARK(Heartbeat)->Arg(4)->Arg(64);

void Scrape(benchmark::State& state) {
  prometheus::Registry registry;
  coordinator::CoordinatorMetrics metrics(registry, "demo",
                                          Config(state.range(0)));
  const prometheus::TextSerializer serializer;
  for (auto _ : state) {
    benchmark::DoNotOptimize(serializer.Serialize(registry.Collect()));
  }
}
BENCHMARK(Scrape)->Arg(4)->Arg(64);

// A phase of a stage: two looks at the clock and a sum under a mutex. An update
// of a stage in the middle has about nine, and four per rotated matrix.
void Phase(benchmark::State& state) {
  std::mutex mutex;
  double seconds = 0;
  for (auto _ : state) {
    base::Stopwatch watch;
    const double lap = watch.Lap();
    std::lock_guard lock(mutex);
    seconds += lap;
  }
  benchmark::DoNotOptimize(seconds);
}
BENCHMARK(Phase);

}  // namespace
}  // namespace gimbal

BENCHMARK_MAIN();

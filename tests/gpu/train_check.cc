#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "tests/gpu/bench.h"
#include "tests/support/local_pipeline.h"
#include "worker/pipeline/cuda/cuda_engine.h"

namespace gimbal::gpu {
namespace {

using test_support::PipelineOptions;
using test_support::PipelineResult;

constexpr double kTolerance = 1e-4;

PipelineOptions OptionsOf(bool tiny) {
  PipelineOptions options;
  options.schedule = {worker::ScheduleKind::kAsync1F1B, 8, 1};
  options.optimizer.kind = worker::OptimizerKind::kAdamW;
  options.model.layers = 8;
  options.updates = 12;
  if (!tiny) {
    options.model = {.layers = 8,
                     .hidden = 128,
                     .heads = 4,
                     .context = 64,
                     .vocab = 256,
                     .mlp_hidden = 512};
    options.init_std = 0.05;
    options.microbatch = 4;
    options.updates = 50;
  }
  options.lr = {.peak = 1e-3, .warmup = 3, .steps = options.updates};
  return options;
}

struct Timed {
  PipelineResult result;
  double seconds = 0;
};

Timed Train(PipelineOptions options, worker::EngineFactory engine) {
  options.engine = std::move(engine);
  const auto start = std::chrono::steady_clock::now();
  Timed timed = {RunPipeline(options)};
  timed.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return timed;
}

double LargestDistance(const PipelineResult& a, const PipelineResult& b) {
  double largest = a.losses.size() == b.losses.size() ? 0 : INFINITY;
  for (const auto& [update, loss] : a.losses) {
    const auto other = b.losses.find(update);
    if (other == b.losses.end()) return INFINITY;
    const double distance = std::abs(loss - other->second) / other->second;
    // A NaN is no distance that passes.
    largest = std::isnan(distance) ? INFINITY : std::max(largest, distance);
  }
  return largest;
}

void PrintRow(const char* where, const Timed& run) {
  if (run.result.losses.empty()) return;
  std::printf("| %s | %.6f | %.6f | %.1f |\n", where,
              run.result.losses.begin()->second,
              run.result.losses.rbegin()->second, run.seconds);
}

}  // namespace

bool CheckTraining(const BenchOptions& bench) {
  const PipelineOptions options = OptionsOf(bench.tiny);
  const Timed device = Train(options, worker::MakeCudaEngine);
  const Timed cpu = Train(options, worker::MakeCpuEngine);
  for (const Timed* run : {&device, &cpu}) {
    if (run->result.status.ok()) continue;
    std::printf("the pipeline failed: %s\n",
                std::string(run->result.status.message()).c_str());
    return false;
  }
  const double distance = LargestDistance(device.result, cpu.result);
  const bool passed =
      distance <= kTolerance && device.result.staleness == cpu.result.staleness;
  std::printf("%lld updates in %d stages:\n\n",
              static_cast<long long>(options.updates), options.schedule.stages);
  std::printf("| on | first loss | last loss | seconds |\n|---|---|---|---|\n");
  PrintRow("the device", device);
  PrintRow("the CPU", cpu);
  std::printf(
      "\nLargest relative distance of a loss: %.1e (at most %.0e): %s\n",
      distance, kTolerance, passed ? "passed" : "FAILED");
  return passed;
}

}  // namespace gimbal::gpu

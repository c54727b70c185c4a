// What a pipeline loses to basis refreshes that fall together, or apart.
//
// Four stages on four workers, async-1f1b. An update takes every stage 10 ms,
// and every tenth one 40 ms more: asleep, so that cores are not what is
// measured. Prints the time per update without refreshes, with all stages
// refreshing at the same update, and with refreshes spread over the period.
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "tests/support/local_pipeline.h"

namespace gimbal::worker {
namespace {

constexpr int kStages = 4;
constexpr int kUpdates = 200;
constexpr int kPeriod = 10;
constexpr std::chrono::milliseconds kUpdate{10};
constexpr std::chrono::milliseconds kRefresh{40};

using Refreshes = std::function<bool(int stage, int64_t update)>;

double MillisecondsPerUpdate(const Refreshes& refreshes) {
  test_support::PipelineOptions options;
  options.schedule.stages = kStages;
  options.workers = kStages;
  options.updates = kUpdates;
  options.lr.steps = kUpdates;
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.on_update = [&](const UpdateReport& report) {
    std::this_thread::sleep_for(kUpdate);
    if (refreshes(report.stage, report.update)) {
      std::this_thread::sleep_for(kRefresh);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const test_support::PipelineResult result = RunPipeline(options);
  const std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - begin;
  if (!result.status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(result.status.message()).c_str());
  }
  return time.count() / kUpdates;
}

int Main() {
  const double none = MillisecondsPerUpdate([](int, int64_t) { return false; });
  const double together = MillisecondsPerUpdate(
      [](int, int64_t update) { return update % kPeriod == 0; });
  std::printf("| refreshes | ms per update | lost to refreshes |\n");
  std::printf("|---|---|---|\n| none | %.1f | |\n", none);
  std::printf("| all stages at the same update | %.1f | %.1f |\n", together,
              together - none);
  for (const int step : {1, 2, 3}) {
    const double apart =
        MillisecondsPerUpdate([step](int stage, int64_t update) {
          return update % kPeriod == stage * step % kPeriod;
        });
    std::printf("| %d update%s after the stage before | %.1f | %.1f |\n", step,
                step == 1 ? "" : "s", apart, apart - none);
  }
  for (const int step : {1, 2, 3}) {
    const double apart =
        MillisecondsPerUpdate([step](int stage, int64_t update) {
          return update % kPeriod == (kStages - 1 - stage) * step % kPeriod;
        });
    std::printf("| %d update%s before the stage before | %.1f | %.1f |\n", step,
                step == 1 ? "" : "s", apart, apart - none);
  }
  return 0;
}

}  // namespace
}  // namespace gimbal::worker

int main() { return gimbal::worker::Main(); }

#include "worker/agent/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <set>

namespace gimbal::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::set<std::string> Runs(const prometheus::Registry& registry) {
  std::set<std::string> runs;
  for (const auto& family : registry.Collect()) {
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.name == "run") runs.insert(label.value);
      }
    }
  }
  return runs;
}

TEST(WorkerMetrics, AnotherRunLeavesNoSeriesOfTheFirst) {
  prometheus::Registry registry;
  v1::StageStatus status;
  status.set_microbatches(7);
  auto metrics = std::make_unique<WorkerMetrics>(registry, "demo-1");
  metrics->Update({status});
  EXPECT_EQ(metrics->run(), "demo-1");
  EXPECT_THAT(Runs(registry), ElementsAre("demo-1"));
  metrics.reset();
  EXPECT_THAT(registry.Collect(), IsEmpty());
  metrics = std::make_unique<WorkerMetrics>(registry, "demo-2");
  metrics->Update({status});
  EXPECT_THAT(Runs(registry), ElementsAre("demo-2"));
}

}  // namespace
}  // namespace gimbal::worker

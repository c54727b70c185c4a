#include "worker/agent/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <set>
#include <sstream>

#include "common/config/run_config_io.h"
#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::Assignment AssignmentOf(const std::vector<int>& stages) {
  v1::Assignment assignment;
  const auto config = config::ParseRunConfig(
      "run: {steps: 100}\n"
      "data: {train: corpus}\n"
      "model: {layers: 3, hidden: 8, heads: 2, context: 8}\n"
      "pipeline: {stages: 3}\n",
      "config.yaml", {});
  EXPECT_THAT(config, test_support::IsOk());
  *assignment.mutable_config() = *config;
  for (int stage = 0; stage < 3; ++stage) {
    v1::StagePlacement& placement = *assignment.add_placements();
    placement.set_stage(stage);
    placement.set_first_block(stage);
    placement.set_blocks(1);
  }
  assignment.mutable_stages()->Assign(stages.begin(), stages.end());
  return assignment;
}

std::string Text(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

std::set<std::string> Series(const prometheus::Registry& registry) {
  std::set<std::string> series;
  std::istringstream lines(Text(registry));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) series.insert(line.substr(0, line.find(' ')));
  }
  return series;
}

std::set<std::string> Values(const prometheus::Registry& registry,
                             const std::string& label) {
  std::set<std::string> values;
  for (const auto& family : registry.Collect()) {
    for (const auto& metric : family.metric) {
      for (const auto& found : metric.label) {
        if (found.name == label) values.insert(found.value);
      }
    }
  }
  return values;
}

v1::StageStatus StatusOf(int stage, double seconds) {
  v1::StageStatus status;
  status.set_stage(stage);
  status.set_microbatches(7);
  status.set_bytes_sent_downstream(100);
  status.set_bytes_sent_upstream(40);
  status.mutable_times()->set_rotate(seconds);
  return status;
}

TEST(WorkerMetrics, EveryCallOfItsServiceHasItsSeriesFromTheStart) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, "demo");
  const std::set<std::string> before = Series(registry);
  EXPECT_THAT(Values(registry, "method"), ElementsAre("Fetch", "Store"));
  metrics.OnCall("Fetch", absl::NotFoundError(""), base::Seconds(0.1));
  metrics.OnCall("Store", absl::InternalError(""), base::Seconds(0.1));
  EXPECT_EQ(Series(registry), before);
  EXPECT_THAT(Text(registry),
              HasSubstr("gimbal_rpc_errors_total{code=\"not_found\","
                        "method=\"Fetch\",run=\"demo\"} 1"));
}

TEST(WorkerMetrics, AnotherRunLeavesNoSeriesOfTheFirst) {
  prometheus::Registry registry;
  auto metrics = std::make_unique<WorkerMetrics>(registry, "demo-1");
  metrics->Host(AssignmentOf({0}));
  EXPECT_EQ(metrics->run(), "demo-1");
  EXPECT_THAT(Values(registry, "run"), ElementsAre("demo-1"));
  metrics.reset();
  EXPECT_THAT(registry.Collect(), IsEmpty());
  metrics = std::make_unique<WorkerMetrics>(registry, "demo-2");
  metrics->Host(AssignmentOf({0}));
  EXPECT_THAT(Values(registry, "run"), ElementsAre("demo-2"));
}

TEST(WorkerMetrics, AllSeriesOfAStageAreThereBeforeItRuns) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, "demo");
  metrics.Host(AssignmentOf({1}));
  const auto before = Series(registry);
  metrics.Update({StatusOf(1, 0.5)});
  EXPECT_EQ(Series(registry), before);
  const std::string text = Text(registry);
  EXPECT_THAT(text, HasSubstr("gimbal_stage_phase_seconds_total{phase="
                              "\"rotate\",run=\"demo\",stage=\"1\"} 0.5"));
  EXPECT_THAT(text, HasSubstr("gimbal_edge_bytes_total{direction="
                              "\"downstream\",edge=\"1\",run=\"demo\"} 100"));
  EXPECT_THAT(text, HasSubstr("gimbal_edge_bytes_total{direction="
                              "\"upstream\",edge=\"0\",run=\"demo\"} 40"));
  EXPECT_THAT(text, Not(HasSubstr("kind=\"weights\",run=\"demo\","
                                  "stage=\"1\"} 0\n")));
}

// A forward pass is idle time until it has ended, so that total falls back.
TEST(WorkerMetrics, IdleTimeThatTurnsOutBusyIsNotCountedAgain) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, "demo");
  metrics.Host(AssignmentOf({1}));
  const auto update = [&](double forward, double idle, int microbatches) {
    v1::StageStatus status;
    status.set_stage(1);
    status.set_microbatches(microbatches);
    status.mutable_times()->set_forward(forward);
    status.mutable_times()->set_idle(idle);
    metrics.Update({status});
  };
  const auto expect = [&](const char* phase, const char* seconds) {
    EXPECT_THAT(
        Text(registry),
        HasSubstr(std::string("gimbal_stage_phase_seconds_total{phase="
                              "\"") +
                  phase + "\",run=\"demo\",stage=\"1\"} " + seconds + "\n"));
  };
  update(10, 5, 10);
  update(12, 4, 12);
  expect("idle", "5");
  expect("forward", "12");
  update(12, 6, 12);
  expect("idle", "6");
  // Built anew: everything starts again, and the counters go on.
  update(1, 2, 1);
  expect("idle", "8");
  expect("forward", "13");
}

TEST(WorkerMetrics, TheEndsOfThePipelineSendOneWay) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, "demo");
  metrics.Host(AssignmentOf({0}));
  EXPECT_THAT(Values(registry, "direction"), ElementsAre("downstream"));
  metrics.Host(AssignmentOf({2}));
  EXPECT_THAT(Values(registry, "direction"), ElementsAre("upstream"));
}

TEST(WorkerMetrics, StagesOfOthersAreNotShown) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, "demo");
  metrics.Host(AssignmentOf({0, 1}));
  const auto both = Series(registry);
  metrics.Update({StatusOf(0, 1), StatusOf(1, 1), StatusOf(2, 1)});
  EXPECT_EQ(Series(registry), both);
  metrics.Host(AssignmentOf({1}));
  EXPECT_THAT(Values(registry, "stage"), ElementsAre("1"));
  metrics.Host({});
  EXPECT_THAT(Values(registry, "stage"), IsEmpty());
  metrics.Host(AssignmentOf({0, 1}));
  EXPECT_EQ(Series(registry), both);
}

TEST(WorkerMetrics, AStageThatIsBuiltAnewGoesOnCounting) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, "demo");
  metrics.Host(AssignmentOf({1}));
  metrics.Update({StatusOf(1, 5)});
  metrics.Host(AssignmentOf({1}));
  metrics.Update({StatusOf(1, 2)});
  EXPECT_THAT(Text(registry), HasSubstr("phase=\"rotate\",run=\"demo\","
                                        "stage=\"1\"} 7\n"));
}

}  // namespace
}  // namespace gimbal::worker

#include "tests/unit/coordinator/run/cluster_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace gimbal::coordinator {

void Start(FakeCluster& cluster, int workers) {
  std::vector<int64_t> ids;
  for (int i = 0; i < workers; ++i) ids.push_back(cluster.Join());
  for (int64_t id : ids) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
}

void Train(FakeCluster& cluster, int count) {
  for (int i = 0; i < count; ++i) {
    for (int stage = 0; stage < cluster.stages(); ++stage) cluster.Step(stage);
  }
}

void TrainAndKeep(FakeCluster& cluster, int count) {
  Train(cluster, count);
  cluster.SendCopies();
}

void TrainToTheFirstCheckpoint(FakeCluster& cluster) {
  Train(cluster, 12);
  for (const auto& [id, worker] : std::map(cluster.workers)) {
    cluster.WriteSnapshot(id);
  }
  ASSERT_THAT(cluster.effects.committed, ::testing::ElementsAre(10));
}

void ExpectAllRows(const FakeCluster& cluster) {
  const auto& rows = cluster.effects.rows;
  ASSERT_EQ(rows.size(), 40u);
  for (const MetricsRow& row : rows) {
    const double update = static_cast<double>(row.step);
    EXPECT_EQ(row.loss, 1 / update);
    double square_sum = 0;
    for (int stage = 0; stage < cluster.stages(); ++stage) {
      square_sum += 1 / (update + stage);
    }
    EXPECT_EQ(row.grad_norm, std::sqrt(square_sum));
    EXPECT_EQ(row.tokens, 16 * row.step);
    EXPECT_EQ(row.lr, 1e-3);
    EXPECT_EQ(row.valid_loss.has_value(), row.step % 5 == 0);
  }
}

void FinishAndExpectAllRows(FakeCluster& cluster) {
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
}

void Wait(FakeCluster& cluster, int seconds,
          const std::vector<int64_t>& workers) {
  for (int i = 0; i < seconds; ++i) {
    cluster.Advance(1);
    for (int64_t worker : workers) cluster.Heartbeat(worker);
  }
}

RunSetup KeepingSetup() {
  RunSetup setup = FakeSetup(4, 4);
  setup.config.mutable_cluster()->set_peer_snapshot_every(4);
  setup.config.mutable_checkpoint()->set_every(100);
  return setup;
}

RunSetup ShrinkingSetup(int min_workers) {
  RunSetup setup = FakeSetup(3, 3);
  setup.config.mutable_cluster()->set_min_workers(min_workers);
  setup.config.mutable_cluster()->mutable_shrink_after()->set_seconds(10);
  return setup;
}

}  // namespace gimbal::coordinator

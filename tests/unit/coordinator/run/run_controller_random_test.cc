// Whatever happens in whatever order, the run ends with the rows it would have
// had anyway. FakeCluster checks the invariants at every step.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "coordinator/run/run_controller.h"
#include "tests/unit/coordinator/run/cluster_steps.h"

namespace gimbal::coordinator {
namespace {

using Request = v1::CommandRequest;

class RandomOrder : public ::testing::TestWithParam<int> {};

int64_t AnyWorker(const FakeCluster& cluster, std::mt19937& random) {
  auto it = cluster.workers.begin();
  std::advance(it, random() % cluster.workers.size());
  return it->first;
}

TEST_P(RandomOrder, EndsWithTheSameRows) {
  std::mt19937 random(GetParam());
  const int stages = 1 + static_cast<int>(random() % 5);
  const int workers = 1 + static_cast<int>(random() % stages);
  RunSetup setup = FakeSetup(stages, workers);
  setup.config.mutable_cluster()->set_min_workers(
      static_cast<int>(random() % 2));
  setup.config.mutable_cluster()->mutable_shrink_after()->set_nanos(300000000);
  setup.config.mutable_guards()->set_nan(v1::GUARD_POLICY_SKIP);
  const int keep = GetParam() % 2 == 0 ? 0 : 1 + static_cast<int>(random() % 7);
  setup.config.mutable_cluster()->set_peer_snapshot_every(keep);
  FakeCluster cluster(setup);
  std::set<int64_t> bad;
  for (unsigned i = random() % 3; i > 0; --i) {
    const auto update = static_cast<int64_t>(1 + random() % 40);
    bad.insert(update);
    cluster.bad_gradients[{static_cast<int>(random() % stages), update}] =
        std::numeric_limits<double>::quiet_NaN();
  }
  int losses = 0;
  for (int i = 0; i < 20000 && !cluster.run->exit_code().has_value(); ++i) {
    cluster.now += std::chrono::milliseconds(10);
    const auto event = random() % 100;
    if (static_cast<int>(cluster.workers.size()) < workers &&
        (cluster.workers.empty() || random() % 20 == 0)) {
      cluster.Join();
    } else if (event < 70) {
      cluster.Step(static_cast<int>(random() % stages));
    } else if (event < 80) {
      cluster.WriteSnapshot(AnyWorker(cluster, random));
      if (keep > 0) cluster.SendCopy(AnyWorker(cluster, random));
    } else if (event < 90) {
      const int64_t worker = AnyWorker(cluster, random);
      cluster.Heartbeat(worker);
      cluster.Ready(worker);
      cluster.FinishIfDone(worker);
    } else if (event < 96) {
      for (const auto& [id, worker] : std::map(cluster.workers)) {
        cluster.Heartbeat(id);
      }
      cluster.Advance(0.01);
    } else if (event < 97 && losses < 10) {
      ++losses;
      cluster.Kill(AnyWorker(cluster, random));
    } else if (event < 97 && losses < 12) {
      ++losses;
      v1::WorkerMessage broken;
      broken.mutable_failure()->set_kind(random() % 2 == 0
                                             ? v1::WorkerFailure::KIND_LINK
                                             : v1::WorkerFailure::KIND_REPLAY);
      (void)cluster.Say(AnyWorker(cluster, random), broken);
    } else if (event < 98 && random() % 4 == 0) {
      cluster.Revive();
    } else if (event < 98 && random() % 4 == 0) {
      // Killed before it has told all of them, moments later.
      cluster.deaf = {AnyWorker(cluster, random)};
      for (unsigned steps = random() % 100; steps > 0; --steps) {
        cluster.Step(static_cast<int>(random() % stages));
      }
      if (random() % 2 == 0) {
        (void)cluster.Command(random() % 2 == 0 ? Request::VERB_PAUSE
                                                : Request::VERB_CHECKPOINT);
      }
      cluster.Revive();
    } else if (event < 98) {
      (void)cluster.Command(Request::VERB_CHECKPOINT);
    } else if (event < 99) {
      (void)cluster.Command(Request::VERB_PAUSE);
    } else {
      (void)cluster.Command(Request::VERB_RESUME);
    }
  }
  ASSERT_EQ(cluster.run->exit_code(), 0)
      << cluster.run->Status(cluster.now).DebugString();
  ASSERT_EQ(cluster.effects.rows.size(), 40u);
  for (const MetricsRow& row : cluster.effects.rows) {
    EXPECT_EQ(row.loss, 1.0 / static_cast<double>(row.step));
    EXPECT_EQ(row.valid_loss.has_value(), row.step % 5 == 0);
    EXPECT_EQ(!row.left_out.empty(), bad.contains(row.step)) << row.step;
  }
  EXPECT_EQ(cluster.effects.left_out.size(), bad.size())
      << "one decision for each";
  for (int64_t update : {10, 20, 30, 40}) {
    // Stages that start behind a checkpoint do not write their parts of it.
    if (keep > 0 && update < 40) continue;
    EXPECT_TRUE(cluster.effects.committed.contains(update));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOrder, ::testing::Range(0, 60));

}  // namespace
}  // namespace gimbal::coordinator

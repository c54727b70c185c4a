// Whatever happens in whatever order, every update is made under the refresh
// rule that follows from the config, what was asked for and what guards left
// out, and the run comes to its end. FakeCluster checks that no grant changes
// the rule of an update that was granted before.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/unit/coordinator/run/cluster_steps.h"
#include "tests/unit/coordinator/run/refresh_steps.h"

namespace gimbal::coordinator {
namespace {

using Request = v1::CommandRequest;

constexpr int kStages = 4;

class RefreshInAnyOrder : public ::testing::TestWithParam<int> {
 protected:
  // Periods of at most 4 updates: the intervals are shorter than the window of
  // the grants and than the pipeline is deep.
  RunSetup RandomSetup() {
    RunSetup setup =
        RotatingSetup(random_() % 4 == 0 ? v1::REFRESH_POLICY_UNIFORM
                                         : v1::REFRESH_POLICY_ADAPTIVE);
    setup.config.mutable_run()->set_steps(120);
    v1::RotationSection& rotation =
        *setup.config.mutable_optimizer()->mutable_rotation();
    rotation.set_period(2);
    rotation.set_max_period(4);
    rotation.set_adapt_every(1 + static_cast<int>(random_() % 30));
    setup.config.mutable_checkpoint()->set_every(
        5 + static_cast<int>(random_() % 60));
    if (random_() % 2 == 0) {
      setup.config.mutable_cluster()->set_peer_snapshot_every(
          1 + static_cast<int>(random_() % 20));
    }
    v1::GuardsSection& guards = *setup.config.mutable_guards();
    guards.set_nan(random_() % 2 == 0 ? v1::GUARD_POLICY_SKIP
                                      : v1::GUARD_POLICY_ROLLBACK);
    guards.set_rollback_updates(1 + static_cast<int>(random_() % 30));
    return setup;
  }

  int64_t AnyWorker(const FakeCluster& cluster) {
    auto it = cluster.workers.begin();
    std::advance(it, random_() % cluster.workers.size());
    return it->first;
  }

  // One stage runs ahead of the others, as far as it may.
  void Step(FakeCluster& cluster) {
    const auto stage = static_cast<int>(random_() % kStages);
    for (unsigned steps = random_() % 12; steps > 0; --steps) {
      if (!cluster.Step(stage)) return;
    }
  }

  void Say(FakeCluster& cluster) {
    const int64_t worker = AnyWorker(cluster);
    cluster.SendReports(worker);
    if (random_() % 4 == 0) cluster.WriteSnapshot(worker);
    if (random_() % 4 == 0) cluster.SendCopy(worker);
    cluster.Heartbeat(worker);
    cluster.Ready(worker);
    cluster.FinishIfDone(worker);
  }

  void Ask(FakeCluster& cluster) {
    switch (random_() % 6) {
      case 0:
        (void)cluster.Command(Request::VERB_PAUSE);
        break;
      case 1:
        (void)cluster.Command(
            RefreshRequest(random_() % 4 == 0 ? v1::REFRESH_POLICY_STAGE_AWARE
                                              : v1::REFRESH_POLICY_ADAPTIVE,
                           1 + static_cast<double>(random_() % 30) / 10));
        break;
      case 2:
        (void)cluster.Command(Request::VERB_CHECKPOINT);
        break;
      default:
        (void)cluster.Command(Request::VERB_RESUME);
    }
  }

  void Harm(FakeCluster& cluster) {
    switch (random_() % 5) {
      case 0:
        cluster.Kill(AnyWorker(cluster));
        break;
      case 1:
        // Killed before it has told all of them, moments later.
        cluster.deaf = {AnyWorker(cluster)};
        for (unsigned steps = random_() % 30; steps > 0; --steps) {
          Step(cluster);
          Say(cluster);
        }
        cluster.Revive();
        break;
      case 2:
        cluster.workers.at(AnyWorker(cluster)) = FakeWorker();
        cluster.Revive();
        break;
      default:
        cluster.Revive();
    }
  }

  void Happen(FakeCluster& cluster) {
    cluster.now += std::chrono::milliseconds(10);
    const auto event = random_() % 400;
    if (cluster.workers.size() < 2) {
      cluster.Join();
    } else if (event < 200) {
      Step(cluster);
    } else if (event < 385) {
      Say(cluster);
    } else if (event < 396) {
      Ask(cluster);
    } else if (harms_ < 8) {
      ++harms_;
      Harm(cluster);
    } else {
      cluster.Advance(0.01);
    }
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
  int harms_ = 0;
};

TEST_P(RefreshInAnyOrder, FollowsFromWhatWasDecidedAlone) {
  const RunSetup setup = RandomSetup();
  FakeCluster cluster(setup);
  cluster.gathers = random_() % 2 == 0;
  for (unsigned i = random_() % 3; i > 0; --i) {
    cluster.bad_gradients[{static_cast<int>(random_() % kStages),
                           static_cast<int64_t>(1 + random_() % 120)}] =
        std::numeric_limits<double>::quiet_NaN();
  }
  for (int i = 0; i < 20000 && !cluster.run->exit_code().has_value(); ++i) {
    Happen(cluster);
    if (HasFailure()) return;
  }
  ASSERT_EQ(cluster.run->exit_code(), 0)
      << cluster.run->Status(cluster.now).DebugString();
  ExpectPeriodsThatFollow(cluster, setup.config);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RefreshInAnyOrder, ::testing::Range(0, 100));

}  // namespace
}  // namespace gimbal::coordinator

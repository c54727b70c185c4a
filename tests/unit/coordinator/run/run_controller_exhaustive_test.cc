// Every order of a few events, from the middle of a run on: whichever comes,
// the run ends with the rows it would have had anyway. FakeCluster checks the
// invariants at every step: one owner per stage and generation, versions and
// rows one by one, grants that only grow.
//
//   GIMBAL_EXPLORE_DEPTH=5 run_test --gtest_filter='*Exhaustive*'  (default: 3)
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "coordinator/run/run_controller.h"
#include "tests/unit/coordinator/run/cluster_steps.h"

namespace gimbal::coordinator {
namespace {

constexpr int kStages = 2;

struct Event {
  const char* name;
  void (*happen)(FakeCluster& cluster);
};

int64_t FirstWorker(const FakeCluster& cluster) {
  return cluster.workers.empty() ? 0 : cluster.workers.begin()->first;
}

int64_t LastWorker(const FakeCluster& cluster) {
  return cluster.workers.empty() ? 0 : cluster.workers.rbegin()->first;
}

void KillIfThere(FakeCluster& cluster, int64_t worker) {
  if (worker != 0) cluster.Kill(worker);
}

void Say(FakeCluster& cluster, int64_t worker, v1::WorkerFailure::Kind kind) {
  if (worker == 0) return;
  v1::WorkerMessage message;
  message.mutable_failure()->set_kind(kind);
  (void)cluster.Say(worker, message);
}

const Event kEvents[] = {
    {"the first worker is lost",
     [](FakeCluster& c) { KillIfThere(c, FirstWorker(c)); }},
    {"the last worker is lost",
     [](FakeCluster& c) { KillIfThere(c, LastWorker(c)); }},
    {"a worker joins", [](FakeCluster& c) { c.Join(); }},
    {"all are heard of",
     [](FakeCluster& c) {
       for (const auto& [id, worker] : std::map(c.workers)) c.Heartbeat(id);
     }},
    {"all are ready",
     [](FakeCluster& c) {
       for (const auto& [id, worker] : std::map(c.workers)) c.Ready(id);
     }},
    {"the first stage goes on", [](FakeCluster& c) { c.Step(0); }},
    {"the last stage goes on", [](FakeCluster& c) { c.Step(kStages - 1); }},
    {"the leases of the silent run out", [](FakeCluster& c) { c.Advance(4); }},
    {"snapshots are written",
     [](FakeCluster& c) {
       for (const auto& [id, worker] : std::map(c.workers)) c.WriteSnapshot(id);
     }},
    {"copies reach the backups", [](FakeCluster& c) { c.SendCopies(); }},
    {"an edge breaks",
     [](FakeCluster& c) {
       Say(c, FirstWorker(c), v1::WorkerFailure::KIND_LINK);
     }},
    {"messages are not kept",
     [](FakeCluster& c) {
       Say(c, LastWorker(c), v1::WorkerFailure::KIND_REPLAY);
     }},
    {"the coordinator is lost", [](FakeCluster& c) { c.Revive(); }},
    {"the run is to stop",
     [](FakeCluster& c) { (void)c.Command(v1::CommandRequest::VERB_STOP); }},
};

RunSetup GuardedSetup(int keep_every) {
  RunSetup setup = FakeSetup(kStages, kStages);
  setup.config.mutable_cluster()->set_peer_snapshot_every(keep_every);
  setup.config.mutable_guards()->set_nan(v1::GUARD_POLICY_SKIP);
  return setup;
}

// The checkpoint of update 10 is still to be committed, and a cut in memory if
// there is one; and there is trouble with a minibatch ahead.
void GoToTheMiddle(FakeCluster& cluster) {
  cluster.bad_gradients[{0, 14}] = std::numeric_limits<double>::quiet_NaN();
  Start(cluster, kStages);
  Train(cluster, 13);
}

// They would register again, as somebody new.
void RemoveTheGivenUp(FakeCluster& cluster) {
  std::erase_if(cluster.workers, [&](const auto& worker) {
    return cluster.effects.disconnected.contains(worker.first);
  });
}

// It was stopped, which lost nothing; others take it up.
void Resume(FakeCluster& cluster) {
  const auto& committed = cluster.effects.committed;
  EXPECT_EQ(cluster.run->exit_code(), committed.empty() ? 3 : 4);
  if (!committed.empty()) {
    EXPECT_EQ(cluster.effects.rows.back().step, *committed.rbegin());
  }
  cluster.workers.clear();
  cluster.Revive();
}

void Finish(FakeCluster& cluster) {
  for (int i = 0; i < 50 && cluster.run->exit_code() != 0; ++i) {
    if (cluster.run->exit_code().has_value()) Resume(cluster);
    RemoveTheGivenUp(cluster);
    while (cluster.workers.size() < kStages) cluster.Join();
    for (const auto& [id, worker] : std::map(cluster.workers)) {
      cluster.Heartbeat(id);
    }
    cluster.RunAll();
    cluster.now += std::chrono::milliseconds(10);
  }
}

bool RunOrder(int keep_every, const std::vector<const Event*>& events) {
  FakeCluster cluster(GuardedSetup(keep_every));
  GoToTheMiddle(cluster);
  for (const Event* event : events) {
    if (cluster.run->exit_code().has_value()) break;
    cluster.now += std::chrono::milliseconds(10);
    RemoveTheGivenUp(cluster);
    event->happen(cluster);
  }
  Finish(cluster);
  EXPECT_EQ(cluster.run->exit_code(), 0)
      << cluster.run->Status(cluster.now).DebugString();
  EXPECT_EQ(cluster.effects.left_out.size(), 1u);
  EXPECT_EQ(cluster.effects.rows.size(), 40u);
  for (const MetricsRow& row : cluster.effects.rows) {
    EXPECT_EQ(row.loss, 1.0 / static_cast<double>(row.step));
    EXPECT_EQ(!row.left_out.empty(), row.step == 14);
  }
  return !::testing::Test::HasFailure();
}

class Exhaustive : public ::testing::TestWithParam<int> {};

TEST_P(Exhaustive, EveryOrderEndsWithTheSameRows) {
  const char* given = std::getenv("GIMBAL_EXPLORE_DEPTH");
  const int depth = given == nullptr ? 3 : std::atoi(given);
  const size_t kinds = std::size(kEvents);
  size_t orders = 1;
  for (int i = 0; i < depth; ++i) orders *= kinds;
  for (size_t order = 0; order < orders; ++order) {
    std::vector<const Event*> events;
    for (size_t rest = order, i = 0; i < static_cast<size_t>(depth); ++i) {
      events.push_back(&kEvents[rest % kinds]);
      rest /= kinds;
    }
    if (RunOrder(GetParam(), events)) continue;
    for (const Event* event : events) std::printf("  %s\n", event->name);
    FAIL() << "order " << order;
  }
}

INSTANTIATE_TEST_SUITE_P(KeepEvery, Exhaustive, ::testing::Values(0, 6));

}  // namespace
}  // namespace gimbal::coordinator

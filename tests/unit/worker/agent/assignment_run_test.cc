// What an assignment tells the coordinator when it cannot go on.
#include "worker/agent/assignment_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "common/config/run_config_io.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/checkpoint/snapshot_service.h"

namespace gimbal::worker {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Messages for the coordinator.
class Inbox {
 public:
  void Put(v1::WorkerMessage message) {
    std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_all();
  }
  // The next one with this body, within 20 s; those before it are dropped.
  std::optional<v1::WorkerMessage> Next(v1::WorkerMessage::BodyCase body) {
    std::unique_lock lock(mutex_);
    std::optional<v1::WorkerMessage> found;
    changed_.wait_for(lock, seconds(20), [&] {
      for (; !messages_.empty() && !found; messages_.pop_front()) {
        if (messages_.front().body_case() == body) found = messages_.front();
      }
      return found.has_value();
    });
    return found;
  }
  size_t size() {
    std::lock_guard lock(mutex_);
    return messages_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::WorkerMessage> messages_;
};

// One of two workers, each of which hosts one of two stages.
struct Host {
  WorkerData data;
  Inbox inbox;
  SnapshotStore store;
  trace::Tracer tracer;
  std::unique_ptr<LinkListener> listener = *LinkListener::Start("127.0.0.1:0");
};

std::unique_ptr<CheckpointStore> InSharedFolder(const v1::Assignment& of,
                                                std::stop_token) {
  return std::make_unique<SharedFolder>(of.checkpoint_root());
}

class AssignmentRunTest : public ::testing::Test {
 protected:
  AssignmentRunTest() {
    std::ofstream(folder_ / "text") << std::string(1000, 'a');
  }

  v1::Assignment AssignmentOf(int stage) {
    const auto config = config::ParseRunConfig(
        "run: {steps: 5}\n"
        "data: {train: " +
            (folder_ / "text") +
            ", format: text}\n"
            "model: {layers: 2, hidden: 8, heads: 2, context: 8}\n"
            "pipeline: {stages: 2}\n"
            "optimizer: {name: adamw}\n",
        "test", {});
    EXPECT_THAT(config, test_support::IsOk());
    v1::Assignment assignment;
    *assignment.mutable_config() = *config;
    assignment.set_run_id("test-run");
    assignment.set_checkpoint_root(folder_ / "checkpoints");
    assignment.add_stages(stage);
    for (int i = 0; i < 2; ++i) {
      v1::StagePlacement& placement = *assignment.add_placements();
      placement.set_stage(i);
      placement.set_first_block(i);
      placement.set_blocks(1);
      placement.set_data_address(hosts_[i].listener->address());
    }
    return assignment;
  }

  std::unique_ptr<AssignmentRun> Start(int stage, v1::Assignment assignment) {
    Host& host = hosts_[stage];
    return std::make_unique<AssignmentRun>(
        1, std::move(assignment), host.data, *host.listener, host.store,
        host.tracer,
        [&host](v1::WorkerMessage message) {
          host.inbox.Put(std::move(message));
        },
        InSharedFolder);
  }
  std::unique_ptr<AssignmentRun> Start(int stage) {
    return Start(stage, AssignmentOf(stage));
  }

  const test_support::TempDir folder_;
  Host hosts_[2];
};

TEST_F(AssignmentRunTest, ANeighbourThatGoesIsALinkFailure) {
  auto first = Start(0), last = Start(1);
  v1::Grant grant;
  grant.set_until(5);
  grant.set_final_update(10);  // nobody finishes
  first->Extend(grant);
  last->Extend(grant);
  for (Host& host : hosts_) {
    ASSERT_TRUE(host.inbox.Next(v1::WorkerMessage::kReady));
  }
  first.reset();
  const auto failure = hosts_[1].inbox.Next(v1::WorkerMessage::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->generation(), 1);
  EXPECT_EQ(failure->failure().kind(), v1::WorkerFailure::KIND_LINK);
  EXPECT_EQ(failure->failure().stage(), 1);
  // Who was told to go does not complain.
  EXPECT_FALSE(hosts_[0].inbox.size() > 0 &&
               hosts_[0].inbox.Next(v1::WorkerMessage::kFailure));
}

TEST_F(AssignmentRunTest, EndsAtOnceWhileItWaitsForANeighbour) {
  for (const int stage : {0, 1}) {
    const auto begin = std::chrono::steady_clock::now();
    // Its stages are built, or not yet, or it waits already.
    for (const int milliseconds : {0, 1, 10, 150}) {
      auto run = Start(stage);
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      run.reset();
      // Listeners take generations that grow; these are new workers, who know
      // nothing of what was dialled before.
      for (Host& host : hosts_) {
        host.listener = *LinkListener::Start("127.0.0.1:0");
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
    EXPECT_EQ(hosts_[stage].inbox.size(), 0u);
  }
}

TEST_F(AssignmentRunTest, MissingDataIsFatalAndNamed) {
  v1::Assignment assignment = AssignmentOf(0);
  assignment.mutable_config()->mutable_data()->set_train(folder_ / "none");
  const auto run = Start(0, assignment);
  const auto failure = hosts_[0].inbox.Next(v1::WorkerMessage::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->failure().kind(), v1::WorkerFailure::KIND_FATAL);
  EXPECT_THAT(failure->failure().reason(), HasSubstr(folder_ / "none"));
}

// Everybody who was thought to have it is asked, the worker itself first.
TEST_F(AssignmentRunTest, ASnapshotThatNobodyHasIsToldApart) {
  v1::Assignment assignment = AssignmentOf(0);
  assignment.mutable_config()->mutable_cluster()->set_peer_snapshot_every(2);
  assignment.mutable_placements(0)->set_worker_id(7);
  assignment.set_start_update(4);
  hosts_[1].store.Begin("test-run", 1, 1, 0);
  const auto server =
      *SnapshotServer::Start("127.0.0.1:0", {}, hosts_[1].store);
  for (const int64_t worker : {7, 8}) {
    v1::SnapshotAddress& source = *assignment.add_sources();
    source.set_worker_id(worker);
    source.set_address(server->address());
  }
  const auto run = Start(0, assignment);
  const auto failure = hosts_[0].inbox.Next(v1::WorkerMessage::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->failure().kind(), v1::WorkerFailure::KIND_SNAPSHOT);
  EXPECT_THAT(failure->failure().reason(),
              AllOf(HasSubstr("stage 0 at update 4"), HasSubstr("worker 8")));
}

// An allocation that fails, wherever it is: here that of the first message.
TEST_F(AssignmentRunTest, RunningOutOfMemoryIsFatalAndSaysWhatIsNeeded) {
  v1::Assignment assignment = AssignmentOf(0);
  assignment.mutable_config()->mutable_pipeline()->set_stages(1);
  assignment.mutable_placements(0)->set_blocks(2);
  bool failed = false;
  Host& host = hosts_[0];
  const AssignmentRun run(
      1, std::move(assignment), host.data, *host.listener, host.store,
      host.tracer,
      [&](v1::WorkerMessage message) {
        if (!std::exchange(failed, true)) {
          throw std::bad_alloc();
        }
        host.inbox.Put(std::move(message));
      },
      InSharedFolder);
  const auto failure = host.inbox.Next(v1::WorkerMessage::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->failure().kind(), v1::WorkerFailure::KIND_FATAL);
  EXPECT_THAT(failure->failure().reason(),
              AllOf(HasSubstr("out of memory"), HasSubstr("MiB")));
}

}  // namespace
}  // namespace gimbal::worker

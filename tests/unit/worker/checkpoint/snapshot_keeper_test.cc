#include "worker/checkpoint/snapshot_keeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/worker/checkpoint/trained_state.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Another worker, who answers or is hung.
class Peer {
 public:
  absl::Status Take(const std::string& address, std::stop_token stop) {
    std::unique_lock lock(mutex_);
    asked_.push_back(address);
    changed_.notify_all();
    while (!stop.stop_requested() && hung_ == address) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    return stop.stop_requested() ? absl::CancelledError("stopped") : answer;
  }
  void Hang(const std::string& address) {
    std::lock_guard lock(mutex_);
    hung_ = address;
  }
  std::vector<std::string> WaitForCalls(size_t calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= calls; });
    return asked_;
  }

  absl::Status answer;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string hung_;
  std::vector<std::string> asked_;
};

class SnapshotKeeperTest : public ::testing::Test {
 protected:
  SnapshotKeeperTest() { store_.Begin("run", 1, 1, 0); }

  void Start() {
    keeper_ = std::make_unique<SnapshotKeeper>(
        "run", store_,
        [this](const std::string& address, const std::string&, int64_t, int,
               const StageSnapshot&,
               std::stop_token stop) { return peer_.Take(address, stop); },
        signal_,
        [this](const KeepResult& result) {
          std::lock_guard lock(mutex_);
          results_.push_back(result);
          changed_.notify_all();
        });
  }
  KeepResult Result(size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.size() > number; });
    return results_[number];
  }

  const std::unique_ptr<StageState> state_ = Trained(2);
  SnapshotStore store_;
  Peer peer_;
  Signal signal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<KeepResult> results_;
  std::unique_ptr<SnapshotKeeper> keeper_;
};

TEST_F(SnapshotKeeperTest, PutsASnapshotHereAndThere) {
  Start();
  keeper_->SetBackups(1, {{1, {7, "there"}}});
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  const KeepResult result = Result(0);
  EXPECT_THAT(result.status, IsOk());
  EXPECT_EQ(result.stage, 1);
  EXPECT_EQ(result.update, 2);
  EXPECT_EQ(result.backup, 7);
  EXPECT_THAT(peer_.WaitForCalls(1), ElementsAre("there"));
  StageState loaded(TrainedSpec());
  ASSERT_NE(store_.Find("run", 1, 2), nullptr);
  EXPECT_EQ(store_.Find("run", 1, 2)->bytes(), result.bytes);
  ASSERT_THAT(LoadStage(*store_.Find("run", 1, 2), &loaded), IsOk());
  ExpectSame(*state_, loaded);
}

TEST_F(SnapshotKeeperTest, WithoutABackupItIsKeptHere) {
  Start();
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  EXPECT_THAT(Result(0).status, IsOk());
  EXPECT_EQ(Result(0).backup, 0);
  EXPECT_THAT(store_.Keys(), ElementsAre(Pair(1, 2)));
}

TEST_F(SnapshotKeeperTest, WhatTheBackupRefusesIsKeptNowhere) {
  peer_.answer = absl::FailedPreconditionError("another run");
  Start();
  keeper_->SetBackups(1, {{1, {7, "there"}}});
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  EXPECT_THAT(Result(0).status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("another run")));
  EXPECT_THAT(store_.Keys(), IsEmpty());
}

TEST_F(SnapshotKeeperTest, OneOfAStageAtATime) {
  peer_.Hang("there");
  Start();
  keeper_->SetBackups(1, {{1, {7, "there"}}, {2, {7, "there"}}});
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  EXPECT_FALSE(keeper_->Take(1, 2, 1, *state_));
  EXPECT_TRUE(keeper_->Take(2, 2, 1, *state_));
  peer_.Hang("");
  Result(1);
}

TEST_F(SnapshotKeeperTest, ABackupThatHangsIsLeftForItsSuccessor) {
  peer_.Hang("there");
  Start();
  keeper_->SetBackups(1, {{1, {7, "there"}}});
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  peer_.WaitForCalls(1);
  keeper_->SetBackups(1, {{1, {8, "elsewhere"}}});
  EXPECT_THAT(Result(0).status, IsOk());
  EXPECT_EQ(Result(0).backup, 8);
  EXPECT_THAT(peer_.WaitForCalls(2), ElementsAre("there", "elsewhere"));
}

TEST_F(SnapshotKeeperTest, ANewBackupGetsWhatTheOldOneHad) {
  Start();
  keeper_->SetBackups(1, {{1, {7, "there"}}, {2, {7, "there"}}});
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  ASSERT_TRUE(keeper_->Take(2, 2, 1, *state_));
  Result(1);
  keeper_->SetBackups(2, {{1, {8, "elsewhere"}}, {2, {7, "there"}}});
  EXPECT_EQ(Result(2).stage, 1);
  EXPECT_EQ(Result(2).backup, 8);
  // It may fail: there is one copy less, as before.
  peer_.answer = absl::UnavailableError("nobody answers");
  keeper_->SendAgain(2, 2, 2);
  peer_.WaitForCalls(5);
  keeper_.reset();
  EXPECT_EQ(results_.size(), 3u);
  EXPECT_THAT(store_.Keys(), ElementsAre(Pair(1, 2), Pair(2, 2)));
}

TEST_F(SnapshotKeeperTest, EndsAtOnceWhileItSends) {
  peer_.Hang("there");
  Start();
  keeper_->SetBackups(1, {{1, {7, "there"}}});
  ASSERT_TRUE(keeper_->Take(1, 2, 1, *state_));
  peer_.WaitForCalls(1);
  keeper_.reset();
  EXPECT_TRUE(results_.empty());
}

}  // namespace
}  // namespace gimbal::worker

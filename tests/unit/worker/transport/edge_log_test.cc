#include "worker/transport/edge_log.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/fake_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 1000;

class EdgeLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<EdgeLog> Log(int64_t memory_messages, int64_t disk_messages) {
    return std::make_unique<EdgeLog>(
        EdgeLogLimits{.memory_bytes = memory_messages * kBytes,
                      .disk_bytes = disk_messages * kBytes,
                      .folder = folder_.path()});
  }

  void Append(EdgeLog& log, MessageKind kind, int64_t index, int32_t part = 0) {
    Message message;
    message.header.kind = kind;
    message.header.index = index;
    message.header.part = part;
    message.payload = pool_->Take(kBytes);
    std::memset(message.payload.data(), static_cast<int>(index), kBytes);
    log.Append(std::move(message));
  }

  // The indices of what is sent now; payloads are checked.
  std::vector<int64_t> Send(EdgeLog& log) {
    std::vector<int64_t> sent;
    for (;;) {
      const auto message = log.Next(*pool_);
      EXPECT_THAT(message, IsOk());
      if (!message.ok() || *message == nullptr) return sent;
      const int64_t index = (*message)->header.index;
      for (int64_t i = 0; i < kBytes; ++i) {
        EXPECT_EQ((*message)->payload.data()[i], std::byte(index));
      }
      sent.push_back(index);
      log.Spill();
    }
  }

  const test_support::TempDir folder_;
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Make(kBytes);
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(EdgeLogTest, SendsAgainWhatThePeerNeeds) {
  auto log = Log(10, 0);
  for (int64_t i = 0; i < 6; ++i) Append(*log, MessageKind::kForward, i);
  Append(*log, MessageKind::kEvaluate, 2, 0);
  Append(*log, MessageKind::kEvaluate, 2, 1);
  EXPECT_EQ(log->unsent(), 8);
  EXPECT_THAT(Send(*log), ElementsAre(0, 1, 2, 3, 4, 5, 2, 2));
  EXPECT_EQ(log->unsent(), 0);
  Positions peer;
  peer[MessageKind::kForward] = {3, 0};
  peer[MessageKind::kEvaluate] = {2, 0};
  ASSERT_THAT(log->Resume(peer), IsOk());
  EXPECT_THAT(Send(*log), ElementsAre(4, 5, 2));
  Append(*log, MessageKind::kForward, 6);
  EXPECT_THAT(Send(*log), ElementsAre(6));
}

// A link that is between two connections must not look full because of what the
// peer has.
TEST_F(EdgeLogTest, WhatThePeerHasIsNotUnsent) {
  auto log = Log(10, 0);
  for (int64_t i = 0; i < 6; ++i) Append(*log, MessageKind::kForward, i);
  Send(*log);
  Positions peer;
  peer[MessageKind::kForward] = {3, 0};
  ASSERT_THAT(log->Resume(peer), IsOk());
  EXPECT_EQ(log->unsent(), 2);
  peer[MessageKind::kForward] = {5, 0};
  ASSERT_THAT(log->Resume(peer), IsOk());
  EXPECT_EQ(log->unsent(), 0);
}

// A stage that is replayed makes again what its neighbours have.
TEST_F(EdgeLogTest, DoesNotSendWhatThePeerHas) {
  auto log = Log(10, 0);
  Positions peer;
  peer[MessageKind::kForward] = {2, 0};
  ASSERT_THAT(log->Resume(peer), IsOk());
  for (int64_t i = 0; i < 5; ++i) Append(*log, MessageKind::kForward, i);
  EXPECT_THAT(Send(*log), ElementsAre(3, 4));
  // But another restart may need it.
  ASSERT_THAT(log->Resume(Positions()), IsOk());
  EXPECT_THAT(Send(*log), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(EdgeLogTest, TheOldestGoToDiskAndComeBack) {
  auto log = Log(2, 100);
  for (int64_t i = 0; i < 9; ++i) {
    Append(*log, MessageKind::kForward, i);
    EXPECT_THAT(Send(*log), ElementsAre(i));
  }
  EXPECT_EQ(log->memory_bytes(), 2 * kBytes);
  EXPECT_EQ(log->disk_bytes(), 7 * kBytes);
  ASSERT_THAT(log->Resume(Positions()), IsOk());
  EXPECT_THAT(Send(*log), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(EdgeLogTest, IsPrunedAtACut) {
  auto log = Log(2, 100);
  for (int64_t i = 0; i < 9; ++i) Append(*log, MessageKind::kForward, i);
  Append(*log, MessageKind::kEvaluate, 2);
  Send(*log);
  // Two microbatches per update: update 3 made number 5 the last one.
  const Positions cut = Positions::AtCut(3, 2);
  log->Prune(cut);
  EXPECT_EQ(log->memory_bytes() + log->disk_bytes(), 4 * kBytes);
  ASSERT_THAT(log->Resume(cut), IsOk());
  EXPECT_THAT(Send(*log), ElementsAre(6, 7, 8));
  EXPECT_THAT(log->Resume(Positions::AtCut(2, 2)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("needs messages from number 4")));
}

TEST_F(EdgeLogTest, WhatIsNotSentYetIsNeverForgotten) {
  auto log = Log(0, 0);
  for (int64_t i = 0; i < 3; ++i) Append(*log, MessageKind::kBackward, i);
  log->Prune(Positions::AtCut(100, 1));
  log->Spill();
  EXPECT_THAT(Send(*log), ElementsAre(0, 1, 2));
  EXPECT_EQ(log->memory_bytes(), 0);
}

TEST_F(EdgeLogTest, SaysWhenNothingCouldBeKept) {
  for (auto& log : {Log(0, 0), Log(1, 1)}) {
    for (int64_t i = 0; i < 5; ++i) Append(*log, MessageKind::kForward, i);
    EXPECT_THAT(Send(*log), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(log->Resume(Positions()),
                StatusIs(absl::StatusCode::kOutOfRange,
                         HasSubstr("cluster.replay_memory_mb")));
    Positions peer;
    peer[MessageKind::kForward] = {4, 0};
    EXPECT_THAT(log->Resume(peer), IsOk());
    EXPECT_THAT(Send(*log), IsEmpty());
  }
}

// What a checkpoint needs of the disk is left to it.
TEST_F(EdgeLogTest, TheDiskIsNotFilled) {
  EdgeLog log({.memory_bytes = kBytes,
               .disk_bytes = 1 << 20,
               .folder = folder_.path(),
               .reserve_bytes = int64_t{1} << 60});
  for (int64_t i = 0; i < 3; ++i) Append(log, MessageKind::kForward, i);
  EXPECT_THAT(Send(log), ElementsAre(0, 1, 2));
  EXPECT_EQ(log.disk_bytes(), 0);
  EXPECT_THAT(log.Resume(Positions()), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(EdgeLogTest, WithoutAFolderTheDiskIsNotUsed) {
  EdgeLog log({.memory_bytes = kBytes,
               .disk_bytes = 1 << 20,
               .folder = folder_ / "missing"});
  for (int64_t i = 0; i < 3; ++i) Append(log, MessageKind::kForward, i);
  EXPECT_THAT(Send(log), ElementsAre(0, 1, 2));
  EXPECT_EQ(log.disk_bytes(), 0);
  EXPECT_THAT(log.Resume(Positions()), StatusIs(absl::StatusCode::kOutOfRange));
}

// What is on a device comes to the host before it is spilled, and what a peer
// has already comes too: it may be needed again.
TEST_F(EdgeLogTest, KeepsOnTheHostWhatWasOnADevice) {
  test_support::FakeDeviceMemory device;
  const auto device_pool = BufferPool::Make(kBytes, device);
  const auto append = [&](EdgeLog& log, int64_t index) {
    Message message;
    message.header.index = index;
    message.payload = device_pool->Take(kBytes);
    const std::string bytes(kBytes, static_cast<char>(index));
    device.FromHost(reinterpret_cast<const std::byte*>(bytes.data()), kBytes,
                    message.payload.data());
    log.Append(std::move(message));
  };
  auto log = Log(1, 10);
  Positions peer;
  peer[MessageKind::kForward] = {1, 0};
  ASSERT_THAT(log->Resume(peer), IsOk());
  for (int64_t i = 0; i < 4; ++i) append(*log, i);
  const auto next = log->Next(*pool_);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ((*next)->header.index, 2);
  EXPECT_TRUE((*next)->payload.on_device());
  log->BringToHost(*pool_, /*unsent=*/false);
  log->Spill();
  EXPECT_EQ(log->disk_bytes(), 3 * kBytes);
  log->BringToHost(*pool_, /*unsent=*/true);
  ASSERT_THAT(log->Resume(Positions()), IsOk());
  EXPECT_THAT(Send(*log), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(device.allocated, 4);  // in their pool
}

}  // namespace
}  // namespace gimbal::worker

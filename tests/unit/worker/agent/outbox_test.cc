#include "worker/agent/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gimbal::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class OutboxTest : public ::testing::Test {
 protected:
  void Update(int64_t update) {
    outbox_.AddUpdate({.update = update});
    outbox_.Flush();
  }
  // Generation and update of what was sent since the last call.
  std::vector<std::pair<int64_t, int64_t>> Sent() {
    std::vector<std::pair<int64_t, int64_t>> result;
    for (const v1::WorkerMessage& message : std::exchange(sent_, {})) {
      for (const v1::StageUpdate& update : message.reports().updates()) {
        result.emplace_back(message.generation(), update.update());
      }
    }
    return result;
  }

  std::vector<v1::WorkerMessage> sent_;
  Outbox outbox_{1, [this](v1::WorkerMessage m) { sent_.push_back(m); }};
};

TEST_F(OutboxTest, GathersUpdatesUntilSomethingElseGoesOut) {
  outbox_.AddUpdate({.update = 1});
  outbox_.AddUpdate({.update = 2});
  EXPECT_THAT(Sent(), IsEmpty());
  v1::WorkerMessage message;
  message.mutable_kept();
  outbox_.Post(message);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_TRUE(sent_[1].has_kept());
  EXPECT_THAT(Sent(), ElementsAre(Pair(1, 1), Pair(1, 2)));
}

// A new coordinator hears nothing of later updates before them.
TEST_F(OutboxTest, WhatIsToldAgainComesFirstUnderTheNewGeneration) {
  for (const int64_t update : {1, 2, 3}) Update(update);
  outbox_.AddUpdate({.update = 4});
  Sent();
  outbox_.SetGeneration(5, 1);
  Update(5);
  EXPECT_THAT(Sent(), ElementsAre(Pair(1, 4), Pair(5, 2), Pair(5, 3),
                                  Pair(5, 4), Pair(5, 5)));
  outbox_.SetGeneration(6, std::nullopt);
  EXPECT_THAT(Sent(), IsEmpty());
}

TEST_F(OutboxTest, WhatIsForgottenIsNotToldAgain) {
  for (const int64_t update : {1, 2, 3}) Update(update);
  outbox_.Forget(2);
  Sent();
  outbox_.SetGeneration(2, 0);
  EXPECT_THAT(Sent(), ElementsAre(Pair(2, 3)));
}

}  // namespace
}  // namespace gimbal::worker

#include "worker/checkpoint/snapshot_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/snapshot_service.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/worker/checkpoint/trained_state.h"
#include "worker/checkpoint/snapshot_client.h"
#include "worker/checkpoint/snapshot_wire.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Chunks = std::vector<v1::SnapshotChunk>;

class SnapshotServiceTest : public ::testing::Test {
 protected:
  SnapshotServiceTest() {
    store_.Begin("run", 2, 2, 0);
    snapshot_.Copy(7, *state_);
  }

  // Stores the chunks as they are.
  absl::Status Send(const Chunks& chunks) {
    const auto stub =
        v1::SnapshotService::NewStub(rpc::MakeChannel(server_->address(), {}));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    v1::StoreResponse response;
    const auto writer = stub->Store(&context, &response);
    for (const v1::SnapshotChunk& chunk : chunks) {
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return rpc::FromGrpc(writer->Finish());
  }

  Chunks ChunksOf(const StageSnapshot& snapshot) const {
    Chunks chunks;
    WriteChunks("run", 2, 1, snapshot, [&](const v1::SnapshotChunk& chunk) {
      chunks.push_back(chunk);
      return true;
    });
    return chunks;
  }

  const std::unique_ptr<StageState> state_ = Trained(7);
  StageSnapshot snapshot_;
  SnapshotStore store_;
  std::unique_ptr<SnapshotServer> server_ =
      *SnapshotServer::Start("127.0.0.1:0", {}, store_);
};

TEST_F(SnapshotServiceTest, BringsEveryNumberThereAndBack) {
  ASSERT_THAT(StoreSnapshot(server_->address(), {}, "run", 2, 1, snapshot_, {}),
              IsOk());
  const auto stored = store_.Find("run", 1, 7);
  ASSERT_NE(stored, nullptr);
  EXPECT_TRUE(std::ranges::equal(stored->values(), snapshot_.values()));
  ASSERT_OK_AND_ASSIGN(const auto fetched,
                       FetchSnapshot(server_->address(), {}, "run", 1, 7, {}));
  StageState loaded(TrainedSpec());
  ASSERT_THAT(LoadStage(*fetched, &loaded), IsOk());
  ExpectSame(*state_, loaded);
}

TEST_F(SnapshotServiceTest, TellsOfEveryCall) {
  std::vector<std::string> calls;
  server_->Observe(
      [&](const char* method, const absl::Status& status, base::Seconds taken) {
        EXPECT_GT(taken.count(), 0);
        calls.push_back(method + std::string(" ") +
                        std::string(absl::StatusCodeToString(status.code())));
      });
  ASSERT_THAT(Send({}), Not(IsOk()));
  ASSERT_THAT(Send(ChunksOf(snapshot_)), IsOk());
  ASSERT_THAT(FetchSnapshot(server_->address(), {}, "run", 1, 7, {}).status(),
              IsOk());
  EXPECT_FALSE(FetchSnapshot(server_->address(), {}, "run", 2, 7, {}).ok());
  server_->Observe(nullptr);
  EXPECT_FALSE(FetchSnapshot(server_->address(), {}, "run", 2, 7, {}).ok());
  EXPECT_THAT(calls, ElementsAre("Store DATA_LOSS", "Store OK", "Fetch OK",
                                 "Fetch NOT_FOUND"));
}

TEST_F(SnapshotServiceTest, ALargeOneComesInChunks) {
  ASSERT_OK_AND_ASSIGN(
      StageSnapshot large,
      StageSnapshot::WithTensors(9, {{"a", "x", {700000}}, {"b", "y", {3}}}));
  for (size_t i = 0; i < large.values().size(); ++i) {
    large.values()[i] = static_cast<float>(i);
  }
  EXPECT_EQ(ChunksOf(large).size(), 5u);
  ASSERT_THAT(StoreSnapshot(server_->address(), {}, "run", 2, 1, large, {}),
              IsOk());
  EXPECT_TRUE(
      std::ranges::equal(store_.Find("run", 1, 9)->values(), large.values()));
}

TEST_F(SnapshotServiceTest, WhatIsNotThereIsNotFound) {
  EXPECT_THAT(
      FetchSnapshot(server_->address(), {}, "run", 1, 7, {}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("stage 1 at update 7")));
  const std::string address = server_->address();
  server_.reset();
  EXPECT_EQ(FetchSnapshot(address, {}, "run", 1, 7, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(SnapshotServiceTest, AnotherRunOrAnOlderGenerationIsRefused) {
  for (const auto& [run, generation] :
       {std::pair("another", 2), std::pair("run", 1)}) {
    EXPECT_EQ(
        StoreSnapshot(server_->address(), {}, run, generation, 1, snapshot_, {})
            .code(),
        absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(store_.Keys().empty());
}

TEST_F(SnapshotServiceTest, WhatIsDamagedOnTheWayIsRefused) {
  const auto flip = [](std::string* text) { (*text)[text->size() / 2] ^= 1; };
  const std::vector<std::function<void(Chunks&)>> damages = {
      [&](Chunks& c) { flip(c[1].mutable_values()); },
      [&](Chunks& c) { flip(c.back().mutable_sha256()); },
      [&](Chunks& c) {
        flip(c[0].mutable_header()->mutable_tensors(0)->mutable_name());
      },
      [&](Chunks& c) { c[0].mutable_header()->set_update(8); },
      [&](Chunks& c) { c.pop_back(); },
      [&](Chunks& c) { c.erase(c.begin()); },
      [&](Chunks& c) { c.erase(c.begin() + 1); },
      [&](Chunks& c) { c.insert(c.begin() + 1, c[1]); },
      [&](Chunks& c) { c.insert(c.begin(), c[0]); },
      [&](Chunks& c) { c.push_back(c[1]); },
      [&](Chunks& c) { c.clear(); },
  };
  for (const auto& damage : damages) {
    Chunks chunks = ChunksOf(snapshot_);
    damage(chunks);
    EXPECT_EQ(Send(chunks).code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(store_.Keys().empty());
  }
  EXPECT_THAT(Send(ChunksOf(snapshot_)), IsOk());
}

TEST_F(SnapshotServiceTest, AHeaderThatAsksForTooMuchIsRefused) {
  Chunks chunks = ChunksOf(snapshot_);
  v1::SnapshotTensor& tensor = *chunks[0].mutable_header()->mutable_tensors(0);
  tensor.clear_shape();
  tensor.add_shape(int64_t{1} << 45);
  EXPECT_EQ(Send(chunks).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SnapshotServiceTest, AStoppedCallEnds) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(StoreSnapshot(server_->address(), {}, "run", 2, 1, snapshot_,
                          stop.get_token())
                .code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace gimbal::worker

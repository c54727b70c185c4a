// Channels over NCCL, on the host layer: that they carry, and that nothing that
// goes wrong with them holds anybody up.
#include "worker/transport/cuda/nccl_channels.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/support/nccl_faults.h"
#include "tests/support/status_matchers.h"
#include "worker/compute/cuda/memory.h"

namespace gimbal::worker {
namespace {

using compute::cuda::DeviceBuffer;
using std::chrono::milliseconds;
using test_support::IsOk;
using test_support::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Before the first call: the two ends take two devices.
const int devices_set = setenv("GIMBAL_CUDA_HOST_DEVICES", "2", 1);

constexpr milliseconds kLong{60000};
constexpr milliseconds kShort{200};
constexpr int64_t kBytes = 4000;

class NcclChannelsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(FindNccl().version, 22809); }

  std::unique_ptr<PayloadChannel> Make(bool sends, milliseconds timeout) {
    return (sends ? sender_ : receiver_)
        ->Make({.id = id_,
                .sends = sends,
                .name = sends ? "sender" : "receiver",
                .timeout = timeout,
                .over = [this] { return over_.load(); },
                .stuck = [this](const std::string&) { ++stuck_; }});
  }
  // Both ends at once, as two processes are: what each came to.
  std::pair<absl::Status, absl::Status> Both(
      const std::function<absl::Status(bool sends)>& work) {
    std::pair<absl::Status, absl::Status> result;
    std::thread other([&] { result.first = work(true); });
    result.second = work(false);
    other.join();
    return result;
  }
  // Opens and makes one transfer at each end.
  std::pair<absl::Status, absl::Status> OpenAndCarry(milliseconds timeout) {
    id_ = *sender_->NewId();
    return Both([&](bool sends) {
      const auto channel = Make(sends, timeout);
      absl::Status status = channel->Open();
      if (!status.ok()) return status;
      return channel->Transfer(Payload(sends), kBytes);
    });
  }
  std::byte* Payload(bool sends) {
    return reinterpret_cast<std::byte*>(payloads_[sends ? 0 : 1].data());
  }

  const std::unique_ptr<PayloadChannels> sender_ = MakeNcclChannels(0);
  const std::unique_ptr<PayloadChannels> receiver_ = MakeNcclChannels(1);
  // Made before anything is on its way: that would wait for it.
  const DeviceBuffer<char> payloads_[2] = {DeviceBuffer<char>(kBytes),
                                           DeviceBuffer<char>(kBytes)};
  test_support::NcclFaults faults_;
  ChannelId id_;
  std::atomic<bool> over_ = false;
  std::atomic<int> stuck_ = 0;
};

TEST_F(NcclChannelsTest, CarryUnderAllSeeds) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_host::SetSeed(seed);
    id_ = *sender_->NewId();
    const auto [sent, received] = Both([&](bool sends) {
      const auto channel = Make(sends, kLong);
      absl::Status status = channel->Open();
      for (int i = 0; i < 10 && status.ok(); ++i) {
        if (sends) cudaMemset(Payload(true), i, kBytes);
        if (sends) cudaStreamSynchronize(nullptr);
        status = channel->Transfer(Payload(sends), kBytes);
        if (sends) continue;
        std::vector<char> values(kBytes);
        cudaMemcpy(values.data(), Payload(false), kBytes, cudaMemcpyDefault);
        EXPECT_EQ(values, std::vector<char>(kBytes, static_cast<char>(i)));
      }
      return status;
    });
    EXPECT_THAT(sent, IsOk());
    EXPECT_THAT(received, IsOk());
  }
}

TEST_F(NcclChannelsTest, AnEndThatIsNeverThereIsNotWaitedForForEver) {
  id_ = *sender_->NewId();
  const auto channel = Make(/*sends=*/true, kShort);
  EXPECT_THAT(channel->Open(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("sender: the making of a communicator took "
                                 "longer than 200 ms")));
}

TEST_F(NcclChannelsTest, TheEndOfTheConnectionEndsEveryWait) {
  id_ = *sender_->NewId();
  std::thread ends([this] {
    std::this_thread::sleep_for(milliseconds(20));
    over_ = true;
  });
  const auto channel = Make(/*sends=*/true, kLong);
  EXPECT_THAT(channel->Open(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("the connection is over")));
  ends.join();
}

TEST_F(NcclChannelsTest, AnInitThatNeverCompletesFailsBothEnds) {
  faults_.Ask("init");
  const auto [sent, received] = OpenAndCarry(kShort);
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(faults_.Met("init"));
}

TEST_F(NcclChannelsTest, AnAsynchronousErrorIsTold) {
  faults_.Ask("error");
  const auto [sent, received] = OpenAndCarry(milliseconds(1000));
  const auto& told = absl::IsUnavailable(sent) ? sent : received;
  const auto& other = absl::IsUnavailable(sent) ? received : sent;
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kUnavailable,
                             HasSubstr("a fault that was asked for")));
  EXPECT_THAT(other, StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(NcclChannelsTest, SilenceAndALostPeerHaveADeadline) {
  for (const char* fault : {"silence", "gone"}) {
    faults_.Ask(fault);
    const auto [sent, received] = OpenAndCarry(kShort);
    EXPECT_THAT(sent, StatusIs(absl::StatusCode::kDeadlineExceeded)) << fault;
    EXPECT_THAT(received, StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_TRUE(faults_.Met(fault));
  }
  // And they leave nothing behind.
  const auto [sent, received] = OpenAndCarry(kLong);
  EXPECT_THAT(sent, IsOk());
  EXPECT_THAT(received, IsOk());
}

TEST_F(NcclChannelsTest, OneGpuIsNotForTwoEnds) {
  id_ = *sender_->NewId();
  std::thread other([&] { Make(true, kLong)->Open().IgnoreError(); });
  const auto channel = sender_->Make(
      {.id = id_, .name = "receiver", .timeout = kLong, .over = [this] {
         return over_.load();
       }});
  EXPECT_THAT(channel->Open(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("Duplicate GPU")));
  other.join();
}

TEST_F(NcclChannelsTest, AnAbortThatNeverReturnsIsToldToWhoeverEndsTheProcess) {
  faults_.Ask("abort");
  id_ = *sender_->NewId();
  // It stays where it is, so its thread does, too.
  std::thread([this] {
    Make(/*sends=*/true, kShort)->Open().IgnoreError();
  }).detach();
  while (stuck_ == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(faults_.Met("abort"));
}

}  // namespace
}  // namespace gimbal::worker

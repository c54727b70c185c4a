// The look-alike of NCCL: order, waiting, and its faults.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/test/device_memory.h"
#include "tests/support/nccl_faults.h"

namespace gimbal::cuda_host {
namespace {

// Before the first call: two ranks take two devices.
const int devices_set = setenv("GIMBAL_CUDA_HOST_DEVICES", "2", 1);

ncclResult_t State(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

ncclResult_t AwaitState(ncclComm_t comm) {
  while (State(comm) == ncclInProgress) std::this_thread::yield();
  return State(comm);
}

ncclComm_t Begin(const ncclUniqueId& id, int rank, int device) {
  EXPECT_CUDA_OK(cudaSetDevice(device));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config),
            ncclInProgress);
  return comm;
}

class NcclTest : public ::testing::Test {
 protected:
  void Join(int second_device = 1) {
    ASSERT_EQ(ncclGetUniqueId(&id_), ncclSuccess);
    comms_[0] = Begin(id_, 0, 0);
    comms_[1] = Begin(id_, 1, second_device);
    EXPECT_CUDA_OK(cudaSetDevice(0));
  }
  void JoinWell() {
    Join();
    for (ncclComm_t comm : comms_) ASSERT_EQ(AwaitState(comm), ncclSuccess);
  }
  void TearDown() override {
    for (ncclComm_t comm : comms_) {
      if (comm == nullptr) continue;
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    }
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
  }

  ncclUniqueId id_;
  ncclComm_t comms_[2] = {};
};

class StreamPair {
 public:
  StreamPair() {
    for (cudaStream_t& stream : streams_) {
      EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
  }
  ~StreamPair() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  cudaStream_t operator[](int i) const { return streams_[i]; }

 private:
  cudaStream_t streams_[2];
};

TEST_F(NcclTest, SendsInTheOrderOfTheStreams) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SetSeed(seed);
    JoinWell();
    const StreamPair streams;
    DeviceVector<float> from(1000), to(1000), kept(1000 * 5);
    for (int i = 0; i < 5; ++i) {
      // Overwritten in stream order only.
      EXPECT_CUDA_OK(cudaMemsetAsync(from.data(), i + 1, 4000, streams[0]));
      EXPECT_EQ(
          ncclSend(from.data(), 1000, ncclFloat32, 1, comms_[0], streams[0]),
          ncclSuccess);
      EXPECT_EQ(
          ncclRecv(to.data(), 1000, ncclFloat32, 0, comms_[1], streams[1]),
          ncclSuccess);
      EXPECT_CUDA_OK(cudaMemcpyAsync(kept.data() + 1000 * i, to.data(), 4000,
                                     cudaMemcpyDeviceToDevice, streams[1]));
    }
    EXPECT_CUDA_OK(cudaStreamSynchronize(streams[1]));
    const std::vector<float> values = kept.Values();
    for (int i = 0; i < 5; ++i) {
      float expected = 0;
      std::memset(&expected, i + 1, sizeof expected);
      EXPECT_EQ(values[1000 * i], expected) << "seed " << seed;
      EXPECT_EQ(values[1000 * i + 999], expected);
    }
    TearDown();
    comms_[0] = comms_[1] = nullptr;
  }
}

TEST_F(NcclTest, ATransferWaitsForTheOtherEnd) {
  JoinWell();
  const StreamPair streams;
  DeviceVector<char> from(10), to(10);
  EXPECT_EQ(ncclSend(from.data(), 10, ncclUint8, 1, comms_[0], streams[0]),
            ncclSuccess);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(cudaStreamQuery(streams[0]), cudaErrorNotReady);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ncclRecv(to.data(), 10, ncclUint8, 0, comms_[1], streams[1]),
            ncclSuccess);
  EXPECT_CUDA_OK(cudaStreamSynchronize(streams[0]));
  EXPECT_CUDA_OK(cudaStreamSynchronize(streams[1]));
}

TEST_F(NcclTest, OneDeviceIsNotForTwoRanks) {
  Join(/*second_device=*/0);
  EXPECT_EQ(AwaitState(comms_[0]), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(comms_[0]),
              ::testing::HasSubstr("Duplicate GPU"));
}

TEST_F(NcclTest, AnAbortEndsWhatWaits) {
  JoinWell();
  const StreamPair streams;
  DeviceVector<char> from(10);
  EXPECT_EQ(ncclSend(from.data(), 10, ncclUint8, 1, comms_[0], streams[0]),
            ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  comms_[0] = nullptr;
  EXPECT_CUDA_OK(cudaStreamSynchronize(streams[0]));
  // The other end hears nothing of it.
  DeviceVector<char> to(10);
  EXPECT_EQ(ncclRecv(to.data(), 10, ncclUint8, 0, comms_[1], streams[1]),
            ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(cudaStreamQuery(streams[1]), cudaErrorNotReady);
  EXPECT_EQ(State(comms_[1]), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comms_[1]), ncclSuccess);
  comms_[1] = nullptr;
  EXPECT_CUDA_OK(cudaStreamSynchronize(streams[1]));
}

TEST_F(NcclTest, WhatIsNotOnTheDeviceIsRefused) {
  JoinWell();
  char host[10];
  EXPECT_EQ(ncclSend(host, 10, ncclUint8, 1, comms_[0], nullptr),
            ncclInvalidArgument);
  DeviceVector<char> from(10);
  EXPECT_EQ(ncclSend(from.data(), 11, ncclUint8, 1, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclSend(from.data(), 10, ncclUint8, 0, comms_[0], nullptr),
            ncclInvalidArgument);
}

}  // namespace
}  // namespace gimbal::cuda_host

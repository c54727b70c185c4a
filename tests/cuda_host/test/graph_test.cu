// Recordings of streams and their replay.
#include <cuda_runtime.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/test/device_memory.h"

namespace gimbal::cuda_host {
namespace {

constexpr int kSize = 1024;
constexpr dim3 kGrid(kSize / 32), kBlock(32);

__global__ void Add(int n, const int* x, const int* y, int* sum) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) sum[i] = x[i] + y[i];
}

class Graph : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
    EXPECT_CUDA_OK(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
    EXPECT_CUDA_OK(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming));
  }
  void TearDown() override {
    EXPECT_CUDA_OK(cudaEventDestroy(fork_));
    EXPECT_CUDA_OK(cudaEventDestroy(join_));
    EXPECT_CUDA_OK(cudaStreamDestroy(a_));
    EXPECT_CUDA_OK(cudaStreamDestroy(b_));
    cudaGetLastError();
  }

  // Begins to record a_, calls `work`, and returns how the recording ended.
  cudaError_t Record(const std::function<void()>& work,
                     cudaGraph_t* graph = nullptr) {
    EXPECT_CUDA_OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
    work();
    cudaGraph_t recorded = nullptr;
    const cudaError_t error = cudaStreamEndCapture(a_, &recorded);
    if (graph != nullptr) {
      *graph = recorded;
    } else if (recorded != nullptr) {
      cudaGraphDestroy(recorded);
    }
    return error;
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
};

// y = 2x in b and z = 2x in a, then z = y + z in a.
void ForkAndJoin(cudaStream_t a, cudaStream_t b, cudaEvent_t fork,
                 cudaEvent_t join, bool joined, int* x, int* y, int* z) {
  EXPECT_CUDA_OK(cudaEventRecord(fork, a));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(b, fork));
  EXPECT_CUDA_OK(Launch(Add, kGrid, kBlock, 0, b, kSize, x, x, y));
  EXPECT_CUDA_OK(cudaEventRecord(join, b));
  EXPECT_CUDA_OK(Launch(Add, kGrid, kBlock, 0, a, kSize, x, x, z));
  if (joined) {
    EXPECT_CUDA_OK(cudaStreamWaitEvent(a, join));
  }
  EXPECT_CUDA_OK(Launch(Add, kGrid, kBlock, 0, a, kSize, y, z, z));
}

TEST_F(Graph, ReplaysWhatForkedAndJoined) {
  DeviceVector<int> x(std::vector<int>(kSize, 1)), y(kSize), z(kSize);
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA_OK(Record(
      [&] {
        ForkAndJoin(a_, b_, fork_, join_, true, x.data(), y.data(), z.data());
      },
      &graph));
  size_t nodes = 0;
  EXPECT_CUDA_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3u);
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA_OK(cudaGraphInstantiate(&exec, graph));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_CUDA_OK(cudaGraphUpload(exec, a_));
  for (int seed = 0; seed < 20; ++seed) {
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
    SetSeed(static_cast<uint64_t>(seed));
    EXPECT_CUDA_OK(cudaMemsetAsync(z.data(), 0, kSize * 4, a_));
    EXPECT_CUDA_OK(cudaGraphLaunch(exec, a_));
    EXPECT_CUDA_OK(cudaGraphLaunch(exec, a_));
    EXPECT_CUDA_OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(z.Values(), std::vector<int>(kSize, 4));
  }
  EXPECT_CUDA_OK(cudaGraphExecDestroy(exec));
}

TEST_F(Graph, RecordingRunsNothing) {
  DeviceVector<int> x(std::vector<int>(kSize, 1)),
      y(std::vector<int>(kSize, 5));
  EXPECT_CUDA_OK(Record([&] {
    cudaStreamCaptureStatus status;
    EXPECT_CUDA_OK(cudaStreamIsCapturing(a_, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_CUDA_OK(
        Launch(Add, kGrid, kBlock, 0, a_, kSize, x.data(), x.data(), y.data()));
  }));
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(y.Values(), std::vector<int>(kSize, 5));
}

TEST_F(Graph, WhatDoesNotJoinIsRefused) {
  DeviceVector<int> x(std::vector<int>(kSize, 1)), y(kSize), z(kSize);
  EXPECT_EQ(Record([&] {
              ForkAndJoin(a_, b_, fork_, join_, false, x.data(), y.data(),
                          z.data());
            }),
            cudaErrorStreamCaptureUnjoined);
  // Both streams are free again.
  EXPECT_CUDA_OK(cudaStreamSynchronize(a_));
  EXPECT_CUDA_OK(cudaStreamSynchronize(b_));
}

TEST_F(Graph, CallsThatARecordingForbidsSpoilIt) {
  EXPECT_EQ(Record([&] {
              EXPECT_EQ(cudaStreamSynchronize(a_),
                        cudaErrorStreamCaptureUnsupported);
            }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(Record([&] {
              void* p = nullptr;
              EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
            }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(Record([&] {
              EXPECT_EQ(cudaDeviceSynchronize(),
                        cudaErrorStreamCaptureUnsupported);
              EXPECT_EQ(cudaMemsetAsync(nullptr, 0, 0, a_), cudaSuccess);
            }),
            cudaErrorStreamCaptureInvalidated);
  // An event from outside would tie the graph to what it does not hold.
  EXPECT_CUDA_OK(cudaEventRecord(fork_, b_));
  EXPECT_EQ(Record([&] {
              EXPECT_EQ(cudaStreamWaitEvent(a_, fork_),
                        cudaErrorStreamCaptureIsolation);
            }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_CUDA_OK(Record([&] {
    EXPECT_CUDA_OK(cudaEventRecord(fork_, a_));
    EXPECT_EQ(cudaEventQuery(fork_), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaEventSynchronize(fork_), cudaErrorCapturedEvent);
  }));
}

TEST_F(Graph, TheLegacyStreamDisturbsBlockingStreams) {
  cudaStream_t blocking = nullptr;
  EXPECT_CUDA_OK(cudaStreamCreate(&blocking));
  EXPECT_CUDA_OK(
      cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
  std::thread([] {
    EXPECT_EQ(cudaLaunchHostFunc(
                  nullptr, [](void*) {}, nullptr),
              cudaErrorStreamCaptureImplicit);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_CUDA_OK(cudaStreamDestroy(blocking));
}

TEST_F(Graph, AGraphWithinAGraph) {
  DeviceVector<int> x(std::vector<int>(kSize, 1)),
      y(std::vector<int>(kSize, 0));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t once = nullptr, twice = nullptr;
  const auto add = [&] {
    EXPECT_CUDA_OK(
        Launch(Add, kGrid, kBlock, 0, a_, kSize, x.data(), y.data(), y.data()));
  };
  EXPECT_CUDA_OK(Record(add, &graph));
  EXPECT_CUDA_OK(cudaGraphInstantiate(&once, graph));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_CUDA_OK(Record(
      [&] {
        EXPECT_CUDA_OK(cudaGraphLaunch(once, a_));
        EXPECT_CUDA_OK(cudaGraphLaunch(once, a_));
      },
      &graph));
  EXPECT_CUDA_OK(cudaGraphInstantiate(&twice, graph));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_CUDA_OK(cudaGraphLaunch(twice, a_));
  EXPECT_CUDA_OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(y.Values(), std::vector<int>(kSize, 2));
  EXPECT_CUDA_OK(cudaGraphExecDestroy(once));
  EXPECT_CUDA_OK(cudaGraphExecDestroy(twice));
}

}  // namespace
}  // namespace gimbal::cuda_host

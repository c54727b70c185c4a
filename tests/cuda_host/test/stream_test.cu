// Streams, events and host functions: nothing runs early, nothing waits for
// what it was not told to wait for.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/test/device_memory.h"

namespace gimbal::cuda_host {
namespace {

constexpr int kSeeds = 20;
constexpr int kSize = 4096;

class Seeds : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetSeed(static_cast<uint64_t>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, Seeds, testing::Range(0, kSeeds));

struct Stream {
  Stream() {
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Stream() { EXPECT_CUDA_OK(cudaStreamDestroy(stream)); }
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream = nullptr;
};

struct Event {
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    EXPECT_CUDA_OK(cudaEventCreateWithFlags(&event, flags));
  }
  ~Event() { EXPECT_CUDA_OK(cudaEventDestroy(event)); }
  operator cudaEvent_t() const { return event; }
  cudaEvent_t event = nullptr;
};

__global__ void Fill(int n, int value, int* x) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] = value;
}

__global__ void AddOne(int n, const int* x, int* y) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i] + 1;
}

constexpr dim3 kGrid(kSize / 32), kBlock(32);

// Fills in one stream, adds in another; right only if the second waited.
bool PairIsRight(bool with_event) {
  Stream first, second;
  Event filled;
  DeviceVector<int> x(kSize), y(kSize);
  EXPECT_CUDA_OK(Launch(Fill, kGrid, kBlock, 0, first, kSize, 7, x.data()));
  EXPECT_CUDA_OK(cudaEventRecord(filled, first));
  if (with_event) {
    EXPECT_CUDA_OK(cudaStreamWaitEvent(second, filled));
  }
  EXPECT_CUDA_OK(
      Launch(AddOne, kGrid, kBlock, 0, second, kSize, x.data(), y.data()));
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  return y.Values() == std::vector<int>(kSize, 8);
}

TEST_P(Seeds, AnEventOrdersTwoStreams) { EXPECT_TRUE(PairIsRight(true)); }

TEST(TestOfTheTester, AMissingEventIsFound) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    wrong += PairIsRight(false) ? 0 : 1;
  }
  EXPECT_GE(wrong, 3);
}

// The host reads what a stream writes to pinned memory.
bool HostReadIsRight(bool with_wait) {
  Stream stream;
  int* host = nullptr;
  EXPECT_CUDA_OK(cudaMallocHost(&host, kSize * sizeof(int)));
  DeviceVector<int> x(kSize);
  EXPECT_CUDA_OK(Launch(Fill, kGrid, kBlock, 0, stream, kSize, 7, x.data()));
  EXPECT_CUDA_OK(cudaMemcpyAsync(host, x.data(), kSize * sizeof(int),
                                 cudaMemcpyDeviceToHost, stream));
  if (with_wait) {
    EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
  }
  const bool right = static_cast<volatile int*>(host)[kSize - 1] == 7;
  EXPECT_CUDA_OK(cudaFreeHost(host));
  return right;
}

TEST_P(Seeds, TheHostWaitsForAStream) { EXPECT_TRUE(HostReadIsRight(true)); }

TEST(TestOfTheTester, AMissingWaitOfTheHostIsFound) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    wrong += HostReadIsRight(false) ? 0 : 1;
  }
  EXPECT_GE(wrong, 3);
}

// Pinned memory is read when the copy runs, not when it is asked for.
TEST(TestOfTheTester, ABufferReusedTooEarlyIsFound) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    Stream stream;
    int* host = nullptr;
    EXPECT_CUDA_OK(cudaMallocHost(&host, sizeof(int)));
    DeviceVector<int> x(kSize), y(1);
    *host = 1;
    EXPECT_CUDA_OK(Launch(Fill, kGrid, kBlock, 0, stream, kSize, 7, x.data()));
    EXPECT_CUDA_OK(cudaMemcpyAsync(y.data(), host, sizeof(int),
                                   cudaMemcpyHostToDevice, stream));
    *static_cast<volatile int*>(host) = 2;
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
    wrong += y.Values()[0] == 2 ? 1 : 0;
    EXPECT_CUDA_OK(cudaFreeHost(host));
  }
  EXPECT_GE(wrong, 3);
}

TEST_P(Seeds, AnEventIsReadyWhenAllBeforeItIs) {
  Stream stream;
  Event before, after;
  std::atomic<bool> go = false;
  EXPECT_CUDA_OK(cudaEventRecord(before, stream));
  EXPECT_CUDA_OK(cudaLaunchHostFunc(
      stream,
      [](void* flag) {
        while (!*static_cast<std::atomic<bool>*>(flag)) {
          std::this_thread::yield();
        }
      },
      &go));
  EXPECT_CUDA_OK(cudaEventRecord(after, stream));
  EXPECT_CUDA_OK(cudaEventSynchronize(before));
  EXPECT_EQ(cudaEventQuery(after), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  go = true;
  EXPECT_CUDA_OK(cudaEventSynchronize(after));
  EXPECT_CUDA_OK(cudaEventQuery(after));
  EXPECT_CUDA_OK(cudaStreamQuery(stream));
}

TEST(Event, OneNeverRecordedIsReady) {
  Event event;
  EXPECT_CUDA_OK(cudaEventQuery(event));
  EXPECT_CUDA_OK(cudaEventSynchronize(event));
}

// A wait means the record before it, not a later one.
TEST_P(Seeds, AnEventRecordedAgainDoesNotChangeEarlierWaits) {
  Stream first, second;
  Event event;
  std::atomic<bool> go = false;
  EXPECT_CUDA_OK(cudaEventRecord(event, first));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(second, event));
  EXPECT_CUDA_OK(cudaLaunchHostFunc(
      first,
      [](void* flag) {
        while (!*static_cast<std::atomic<bool>*>(flag)) {
          std::this_thread::yield();
        }
      },
      &go));
  EXPECT_CUDA_OK(cudaEventRecord(event, first));
  go = true;  // One thread plays the device: it cannot pass a host function.
  EXPECT_CUDA_OK(cudaStreamSynchronize(second));
  EXPECT_CUDA_OK(cudaStreamSynchronize(first));
}

TEST(Event, TimesGrow) {
  Stream stream;
  Event begin(cudaEventDefault), end(cudaEventDefault);
  EXPECT_CUDA_OK(cudaEventRecord(begin, stream));
  EXPECT_CUDA_OK(cudaLaunchHostFunc(
      stream,
      [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); },
      nullptr));
  EXPECT_CUDA_OK(cudaEventRecord(end, stream));
  EXPECT_CUDA_OK(cudaEventSynchronize(end));
  float ms = 0;
  EXPECT_CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
  EXPECT_GE(ms, 5);
  Event untimed;
  EXPECT_CUDA_OK(cudaEventRecord(untimed, stream));
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, untimed),
            cudaErrorInvalidResourceHandle);
}

// The legacy stream waits for blocking streams and they for it.
TEST_P(Seeds, TheLegacyStreamIsOrderedWithBlockingOnes) {
  cudaStream_t blocking = nullptr;
  EXPECT_CUDA_OK(cudaStreamCreate(&blocking));
  DeviceVector<int> x(kSize), y(kSize), z(kSize);
  EXPECT_CUDA_OK(Launch(Fill, kGrid, kBlock, 0, blocking, kSize, 1, x.data()));
  EXPECT_CUDA_OK(
      Launch(AddOne, kGrid, kBlock, 0, nullptr, kSize, x.data(), y.data()));
  EXPECT_CUDA_OK(
      Launch(AddOne, kGrid, kBlock, 0, blocking, kSize, y.data(), z.data()));
  EXPECT_CUDA_OK(cudaStreamSynchronize(blocking));
  EXPECT_EQ(z.Values(), std::vector<int>(kSize, 3));
  EXPECT_CUDA_OK(cudaStreamDestroy(blocking));
}

TEST_P(Seeds, AStreamDestroyedEarlyFinishesItsWork) {
  DeviceVector<int> x(kSize);
  {
    Stream stream;
    EXPECT_CUDA_OK(Launch(Fill, kGrid, kBlock, 0, stream, kSize, 7, x.data()));
  }
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(x.Values(), std::vector<int>(kSize, 7));
}

TEST(HostFunction, MayNotCallTheRuntime) {
  Stream stream;
  cudaError_t error = cudaSuccess;
  EXPECT_CUDA_OK(cudaLaunchHostFunc(
      stream,
      [](void* result) {
        *static_cast<cudaError_t*>(result) = cudaDeviceSynchronize();
      },
      &error));
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST(Stream, HandlesThatAreNoneAreRefused) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA_OK(cudaStreamCreate(&stream));
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(nullptr), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

}  // namespace
}  // namespace gimbal::cuda_host

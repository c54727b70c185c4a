// What the device language does, under 20 seeds each.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/test/device_memory.h"

namespace gimbal::cuda_host {
namespace {

constexpr int kSeeds = 20;
constexpr unsigned kAll = 0xffffffffu;

class Seeds : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetSeed(static_cast<uint64_t>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, Seeds, testing::Range(0, kSeeds));

__global__ void WritePlace(int* out) {
  const unsigned block =
      (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned n = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[n] += static_cast<int>(n) + 1;
}

TEST_P(Seeds, EveryThreadOfEveryBlockRunsOnce) {
  const dim3 grid(3, 5, 2), block(7, 3, 2);
  DeviceVector<int> out(std::vector<int>(30 * 42, 0));
  EXPECT_CUDA_OK(Launch(WritePlace, grid, block, 0, nullptr, out.data()));
  std::vector<int> expected(out.size());
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(out.Values(), expected);
}

// One block sums `n` values: strided, then a tree in shared memory.
template <int kThreads, bool kBarrier>
__global__ void TreeSum(int n, const float* x, float* sum) {
  __shared__ float partial[kThreads];
  float mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) {
    mine += x[i];
  }
  partial[threadIdx.x] = mine;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (kBarrier || half != 8) __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sum = partial[0];
}

// Whole numbers, whose sums are exact in any order.
std::vector<float> Numbers(int n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>((i * 37) % 101 - 30);
  }
  return x;
}

template <bool kBarrier>
bool TreeSumIsRight() {
  const std::vector<float> x = Numbers(1000);
  DeviceVector<float> in(x), sum(1);
  EXPECT_CUDA_OK(Launch(TreeSum<64, kBarrier>, 1, 64, 0, nullptr, 1000,
                        in.data(), sum.data()));
  return sum.Values()[0] == std::accumulate(x.begin(), x.end(), 0.0f);
}

TEST_P(Seeds, BarriersOrderTheBlock) { EXPECT_TRUE(TreeSumIsRight<true>()); }

TEST(TestOfTheTester, AMissingBarrierIsFound) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    wrong += TreeSumIsRight<false>() ? 0 : 1;
  }
  EXPECT_GE(wrong, 15);
}

// Between the reading of one round and the writing of the next.
template <bool kBarrier>
__global__ void Rotate(int rounds, int* out) {
  __shared__ int value[32];
  value[threadIdx.x] = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    const int next = value[(threadIdx.x + 1) % blockDim.x];
    if (kBarrier) __syncthreads();
    value[threadIdx.x] = next;
  }
  out[threadIdx.x] = value[threadIdx.x];
}

template <bool kBarrier>
bool RotateIsRight() {
  DeviceVector<int> out(32);
  EXPECT_CUDA_OK(Launch(Rotate<kBarrier>, 1, 32, 0, nullptr, 5, out.data()));
  std::vector<int> expected(32);
  for (int i = 0; i < 32; ++i) expected[static_cast<size_t>(i)] = (i + 5) % 32;
  return out.Values() == expected;
}

TEST_P(Seeds, BarriersKeepRoundsApart) { EXPECT_TRUE(RotateIsRight<true>()); }

TEST(TestOfTheTester, ABarrierMissingAfterReadingIsFound) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    wrong += RotateIsRight<false>() ? 0 : 1;
  }
  EXPECT_EQ(wrong, kSeeds);
}

__global__ void CountPredicates(int* out) {
  const int odd = static_cast<int>(threadIdx.x % 2);
  const int count = __syncthreads_count(odd);
  const int any = __syncthreads_or(threadIdx.x == 17);
  const int all = __syncthreads_and(threadIdx.x != 17);
  out[threadIdx.x] = count * 100 + any * 10 + all;
}

TEST_P(Seeds, BarriersCountPredicates) {
  DeviceVector<int> out(100);
  EXPECT_CUDA_OK(Launch(CountPredicates, 1, 100, 0, nullptr, out.data()));
  EXPECT_EQ(out.Values(), std::vector<int>(100, 5010));
}

// Threads that have ended are not waited for.
__global__ void EndEarly(int* out) {
  __shared__ int shared;
  if (threadIdx.x >= 40) return;
  if (threadIdx.x == 0) shared = 5;
  __syncthreads();
  out[threadIdx.x] = shared + __shfl_sync(kAll, 1, 0);
}

TEST_P(Seeds, BarriersDoNotWaitForThreadsThatEnded) {
  DeviceVector<int> out(40);
  EXPECT_CUDA_OK(Launch(EndEarly, 1, 64, 0, nullptr, out.data()));
  EXPECT_EQ(out.Values(), std::vector<int>(40, 6));
}

struct Shuffled {
  int xor_5, up_3, down_3, broadcast, up_8, xor_12, down_8;
  double wide;
  unsigned ballot;
  int any, all;
};

__global__ void Shuffle(Shuffled* out) {
  const int n = static_cast<int>(threadIdx.x);
  Shuffled s = {};
  s.xor_5 = __shfl_xor_sync(kAll, n, 5);
  s.up_3 = __shfl_up_sync(kAll, n, 3);
  s.down_3 = __shfl_down_sync(kAll, n, 3);
  s.broadcast = __shfl_sync(kAll, n, 7);
  s.up_8 = __shfl_up_sync(kAll, n, 2, 8);
  s.xor_12 = __shfl_xor_sync(kAll, n, 12, 8);
  s.down_8 = __shfl_down_sync(kAll, n, 2, 8);
  s.wide = __shfl_sync(kAll, n + 0.25, 9, 16);
  s.ballot = __ballot_sync(kAll, n % 3 == 0);
  s.any = __any_sync(kAll, n % 32 == 31);
  s.all = __all_sync(kAll, n % 32 != 31);
  out[n] = s;
}

TEST_P(Seeds, WarpOperations) {
  DeviceVector<Shuffled> out(64);
  EXPECT_CUDA_OK(Launch(Shuffle, 1, 64, 0, nullptr, out.data()));
  const std::vector<Shuffled> values = out.Values();
  for (int n = 0; n < 64; ++n) {
    const Shuffled& s = values[static_cast<size_t>(n)];
    const int lane = n % 32, warp = n - lane, eighth = lane % 8;
    EXPECT_EQ(s.xor_5, warp + (lane ^ 5));
    EXPECT_EQ(s.up_3, lane < 3 ? n : n - 3);
    EXPECT_EQ(s.down_3, lane > 28 ? n : n + 3);
    EXPECT_EQ(s.broadcast, warp + 7);
    EXPECT_EQ(s.up_8, eighth < 2 ? n : n - 2);
    // Lanes of an earlier segment may be read, later ones not.
    EXPECT_EQ(s.xor_12, (lane & 8) != 0 ? warp + (lane ^ 12) : n);
    EXPECT_EQ(s.down_8, eighth > 5 ? n : n + 2);
    EXPECT_EQ(s.wide, warp + (lane & 16) + 9.25);
    EXPECT_EQ(s.ballot, warp == 0 ? 0x49249249u : 0x92492492u) << n;
    EXPECT_EQ(s.any, 1);
    EXPECT_EQ(s.all, 0);
  }
}

// Halves of a warp go their own ways and meet again.
__global__ void Diverge(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  int value = lane;
  if (lane < 16) {
    for (int step = 8; step > 0; step /= 2) {
      value += __shfl_xor_sync(0x0000ffffu, value, step);
    }
  } else {
    value = __shfl_sync(0xffff0000u, value, 20);
  }
  out[lane] = __shfl_xor_sync(kAll, value, 16);
}

TEST_P(Seeds, PartsOfAWarpAreIndependent) {
  DeviceVector<int> out(32);
  EXPECT_CUDA_OK(Launch(Diverge, 1, 32, 0, nullptr, out.data()));
  std::vector<int> expected(32, 20);
  std::fill(expected.begin() + 16, expected.end(), 120);
  EXPECT_EQ(out.Values(), expected);
}

template <bool kBarrier>
__global__ void WarpExchange(int* out) {
  __shared__ volatile int value[32];
  value[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kBarrier) __syncwarp();
  out[threadIdx.x] = value[31 - threadIdx.x];
}

template <bool kBarrier>
bool WarpExchangeIsRight() {
  DeviceVector<int> out(32);
  EXPECT_CUDA_OK(Launch(WarpExchange<kBarrier>, 1, 32, 0, nullptr, out.data()));
  std::vector<int> expected(32);
  std::iota(expected.rbegin(), expected.rend(), 0);
  return out.Values() == expected;
}

TEST_P(Seeds, SyncwarpOrdersAWarp) { EXPECT_TRUE(WarpExchangeIsRight<true>()); }

// Lanes do not run in lockstep, as on devices since Volta.
TEST(TestOfTheTester, AMissingSyncwarpIsFound) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    wrong += WarpExchangeIsRight<false>() ? 0 : 1;
  }
  EXPECT_EQ(wrong, kSeeds);
}

// Every lane gives what it has brought to the lane before it.
void ToTheLaneBefore(void* const* lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int* const next = static_cast<int*>(lanes[(lane + 1) % kWarpSize]);
    static_cast<int*>(lanes[lane])[1] = next[0];
  }
}

__global__ void Together(int* out) {
  const int n = static_cast<int>(threadIdx.x);
  int mine[2] = {n * n, 0};
  WarpTogether(ToTheLaneBefore, mine);
  out[n] = mine[1];
}

TEST_P(Seeds, AWarpActsAsOne) {
  DeviceVector<int> out(64);
  EXPECT_CUDA_OK(Launch(Together, 1, 64, 0, nullptr, out.data()));
  const std::vector<int> values = out.Values();
  for (int n = 0; n < 64; ++n) {
    const int next = n / 32 * 32 + (n + 1) % 32;
    EXPECT_EQ(values[static_cast<size_t>(n)], next * next);
  }
}

// The last third of the shared memory is filled with zeros.
template <bool kWait, bool kBarrier>
__global__ void CopyThroughShared(const float* from, float* out) {
  __shared__ float shared[48];
  if (threadIdx.x < 48) {
    const float* const source = threadIdx.x < 32 ? &from[threadIdx.x] : nullptr;
    BeginCopy(&shared[threadIdx.x], source, sizeof(float));
  }
  if (kWait) WaitForCopies();
  if (kBarrier) __syncthreads();
  if (threadIdx.x < 48) out[threadIdx.x] = shared[47 - threadIdx.x];
}

template <bool kWait, bool kBarrier>
bool CopyThroughSharedIsRight() {
  std::vector<float> from(32), expected(48, 0.0f);
  std::iota(from.begin(), from.end(), 1.0f);
  std::copy(from.rbegin(), from.rend(), expected.begin() + 16);
  DeviceVector<float> in(from), out(48);
  EXPECT_CUDA_OK(Launch(CopyThroughShared<kWait, kBarrier>, 1, 64, 0, nullptr,
                        in.data(), out.data()));
  return out.Values() == expected;
}

TEST_P(Seeds, CopiesAreThereAfterAWaitAndABarrier) {
  EXPECT_TRUE((CopyThroughSharedIsRight<true, true>()));
}

TEST(TestOfTheTester, CopiesNobodyWaitsForAreFound) {
  int without_wait = 0, without_barrier = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    without_wait += CopyThroughSharedIsRight<false, true>() ? 0 : 1;
    without_barrier += CopyThroughSharedIsRight<true, false>() ? 0 : 1;
  }
  EXPECT_EQ(without_wait, kSeeds);
  EXPECT_EQ(without_barrier, kSeeds);
}

__global__ void DynamicShared(int n, float* out) {
  float* const values = reinterpret_cast<float*>(gimbal_shared);
  if (threadIdx.x == 0) out[n] = values[0];  // NaN before anything is written.
  __syncthreads();
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[static_cast<unsigned>(n) - 1 - threadIdx.x];
}

TEST_P(Seeds, DynamicSharedMemoryBeginsUndefined) {
  DeviceVector<float> out(65);
  EXPECT_CUDA_OK(Launch(DynamicShared, 1, 64, 64 * 4, nullptr, 64, out.data()));
  const std::vector<float> values = out.Values();
  EXPECT_EQ(values[0], 63);
  EXPECT_EQ(values[63], 0);
  EXPECT_TRUE(std::isnan(values[64]));
}

__global__ void Atomics(int* out, float* sum) {
  atomicAdd(&out[0], 2);
  atomicMax(&out[1], static_cast<int>(threadIdx.x));
  atomicMin(&out[2], -static_cast<int>(blockIdx.x));
  if (atomicCAS(&out[3], 0, static_cast<int>(threadIdx.x) + 1) == 0) {
    atomicAdd(&out[4], 1);
  }
  atomicAdd(sum, 0.5f);
}

TEST_P(Seeds, Atomics) {
  DeviceVector<int> out(std::vector<int>(5, 0));
  DeviceVector<float> sum(std::vector<float>(1, 0));
  EXPECT_CUDA_OK(Launch(Atomics, 9, 33, 0, nullptr, out.data(), sum.data()));
  const std::vector<int> values = out.Values();
  EXPECT_EQ(values[0], 594);
  EXPECT_EQ(values[1], 32);
  EXPECT_EQ(values[2], -8);
  EXPECT_GE(values[3], 1);
  EXPECT_EQ(values[4], 1);
  EXPECT_EQ(sum.Values()[0], 148.5f);
}

__global__ void Order(int* next, int* thread, int* block) {
  const int at = atomicAdd(next, 1);
  thread[at] = static_cast<int>(threadIdx.x);
  block[at] = static_cast<int>(blockIdx.x);
}

TEST(Order, OfThreadsAndBlocksDependsOnTheSeed) {
  std::set<std::vector<int>> threads, blocks;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      DeviceVector<int> next(std::vector<int>(1, 0)), thread(64), block(64);
      SetSeed(static_cast<uint64_t>(seed));
      EXPECT_CUDA_OK(Launch(Order, 16, 4, 0, nullptr, next.data(),
                            thread.data(), block.data()));
      threads.insert(thread.Values());
      blocks.insert(block.Values());
    }
  }
  EXPECT_GE(threads.size(), 15u);
  EXPECT_GE(blocks.size(), 15u);
}

}  // namespace
}  // namespace gimbal::cuda_host

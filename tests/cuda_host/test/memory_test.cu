// Memory, copies, and what is refused.
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/memory.h"
#include "tests/cuda_host/test/device_memory.h"

namespace gimbal::cuda_host {
namespace {

TEST(Memory, BeginsUndefinedAndAligned) {
  DeviceVector<float> x(10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 256, 0u);
  for (float value : x.Values()) EXPECT_TRUE(std::isnan(value));
}

TEST(Memory, OfTheDeviceIsCounted) {
  size_t before = 0, during = 0, total = 0;
  EXPECT_CUDA_OK(cudaMemGetInfo(&before, &total));
  {
    DeviceVector<char> x(1 << 20);
    EXPECT_CUDA_OK(cudaMemGetInfo(&during, &total));
  }
  EXPECT_EQ(before - during, size_t{1} << 20);
  void* pointer = &pointer;
  EXPECT_EQ(cudaMalloc(&pointer, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(Memory, OnlyWhatWasAllocatedIsFreed) {
  int value = 0;
  EXPECT_CUDA_OK(cudaFree(nullptr));
  EXPECT_EQ(cudaFree(&value), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(&value), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(&value), cudaErrorHostMemoryNotRegistered);
  EXPECT_CUDA_OK(cudaHostRegister(&value, sizeof value, 0));
  EXPECT_EQ(cudaHostRegister(&value, sizeof value, 0),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_CUDA_OK(cudaHostUnregister(&value));
}

TEST(Copy, SidesMustBeWhereTheKindSays) {
  DeviceVector<int> x(8);
  std::vector<int> host(8, 3);
  const size_t bytes = 32;
  EXPECT_EQ(cudaMemcpy(host.data(), host.data(), bytes, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data(), x.data(), bytes, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), x.data(), bytes, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, bytes), cudaErrorInvalidValue);
  EXPECT_CUDA_OK(cudaMemcpy(x.data(), host.data(), bytes, cudaMemcpyDefault));
  std::vector<int> back(8, 0);
  EXPECT_CUDA_OK(cudaMemcpy(back.data(), x.data(), bytes, cudaMemcpyDefault));
  EXPECT_EQ(back, host);
}

TEST(Copy, BeyondAnAllocationIsRefused) {
  DeviceVector<int> x(8);
  std::vector<int> host(9);
  EXPECT_EQ(cudaMemcpy(x.data(), host.data(), 33, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data() + 1, host.data(), 32, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(x.data() + 1, 0, 32), cudaErrorInvalidValue);
}

TEST(Copy, Rectangles) {
  std::vector<int> host(6 * 5);
  std::iota(host.begin(), host.end(), 0);
  DeviceVector<int> x(std::vector<int>(4 * 7, -1));
  // 3 rows of 2 from the middle of 6-wide rows into 7-wide ones.
  EXPECT_CUDA_OK(cudaMemcpy2D(x.data() + 8, 7 * 4, host.data() + 7, 6 * 4, 8, 3,
                              cudaMemcpyHostToDevice));
  EXPECT_CUDA_OK(cudaMemset2DAsync(x.data() + 10, 7 * 4, 0, 4, 2));
  std::vector<int> expected(28, -1);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t col = 0; col < 2; ++col) {
      expected[8 + row * 7 + col] = static_cast<int>(7 + row * 6 + col);
    }
  }
  expected[10] = expected[17] = 0;
  EXPECT_EQ(x.Values(), expected);
}

TEST(Copy, PageableMemoryMayBeReusedAtOnce) {
  for (int seed = 0; seed < 20; ++seed) {
    SetSeed(static_cast<uint64_t>(seed));
    DeviceVector<int> x(100);
    std::vector<int> host(100, 1);
    EXPECT_CUDA_OK(
        cudaMemcpyAsync(x.data(), host.data(), 400, cudaMemcpyHostToDevice));
    std::fill(host.begin(), host.end(), 2);
    EXPECT_EQ(x.Values(), std::vector<int>(100, 1));
  }
}

TEST(Memory, FreedInAStreamIsFreedInOrder) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  size_t before = 0, after = 0, total = 0;
  EXPECT_CUDA_OK(cudaMemGetInfo(&before, &total));
  int* x = nullptr;
  EXPECT_CUDA_OK(cudaMallocAsync(&x, 4000, stream));
  EXPECT_CUDA_OK(cudaMemsetAsync(x, 0, 4000, stream));
  EXPECT_CUDA_OK(cudaFreeAsync(x, stream));
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_CUDA_OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
}

TEST(Memory, PointersTellWhereTheyPoint) {
  DeviceVector<int> x(4);
  int* pinned = nullptr;
  EXPECT_CUDA_OK(cudaMallocHost(&pinned, 16));
  cudaPointerAttributes of_device, of_pinned, of_host;
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&of_device, x.data() + 1));
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&of_pinned, pinned + 3));
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&of_host, &of_host));
  EXPECT_EQ(of_device.type, cudaMemoryTypeDevice);
  EXPECT_EQ(of_device.hostPointer, nullptr);
  EXPECT_EQ(of_pinned.type, cudaMemoryTypeHost);
  EXPECT_EQ(of_host.type, cudaMemoryTypeUnregistered);
  EXPECT_CUDA_OK(cudaFreeHost(pinned));
}

TEST(Device, SaysWhatItIs) {
  int count = 0, value = 0;
  EXPECT_CUDA_OK(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 1);
  cudaDeviceProp prop;
  EXPECT_CUDA_OK(cudaGetDeviceProperties(&prop, 0));
  EXPECT_EQ(prop.major, 9);
  EXPECT_CUDA_OK(
      cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(value, prop.multiProcessorCount);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice");
}

// What follows ends the process or the device, so each is a process of its own,
// begun anew because a fork has no device.
class FatalTestOfTheTester : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

__global__ void Write(int* x, int at) { x[at] = 1; }

void WriteBeyond() {
  DeviceVector<int> x(1000);
  // Where only AddressSanitizer sees it, and on the guard page.
#ifdef __SANITIZE_ADDRESS__
  const int beyond = 1000;
#else
  const int beyond = 1024;
#endif
  EXPECT_CUDA_OK(Launch(Write, 1, 1, 0, nullptr, x.data(), beyond));
  cudaDeviceSynchronize();
}

TEST_F(FatalTestOfTheTester, AWriteBeyondAnAllocationIsFound) {
#ifdef __SANITIZE_ADDRESS__
  EXPECT_DEATH(WriteBeyond(), "heap-buffer-overflow");
#else
  EXPECT_DEATH(WriteBeyond(), "device memory");
#endif
}

__global__ void WriteShared(int at) { gimbal_shared[at] = 1; }

TEST_F(FatalTestOfTheTester, AWriteBeyondDynamicSharedMemoryIsFound) {
#ifndef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "found with AddressSanitizer only";
#endif
  EXPECT_DEATH(
      {
        EXPECT_CUDA_OK(Launch(WriteShared, 1, 1, 100, nullptr, 100));
        cudaDeviceSynchronize();
      },
      "use-after-poison");
}

TEST_F(FatalTestOfTheTester, AHostThatTouchesDeviceMemoryIsFound) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "not with AddressSanitizer, whose memory has no keys";
#endif
  DeviceVector<int> x(1);
  if (!DeviceMemoryIsGuarded()) {
    GTEST_SKIP() << "this processor has no protection keys";
  }
  EXPECT_DEATH(*static_cast<volatile int*>(x.data()) = 1, "device memory");
}

int warps_seen = 0;

template <int kWhat>
__global__ void Wrong() {
  if (kWhat == 0 && threadIdx.x == 0) __shfl_sync(0xffffffffu, 1, 0);
  if (kWhat == 0 && threadIdx.x > 0) __syncthreads();
  if (kWhat == 1) __trap();
  if (kWhat == 2 && threadIdx.x % 2 == 0) __syncwarp();
  if (kWhat == 2 && threadIdx.x % 2 == 1) __ballot_sync(0xffffffffu, 1);
  if (kWhat == 3) __shfl_sync(0xffffffffu & ~(1u << threadIdx.x), 1, 0);
  if (kWhat == 4 && threadIdx.x < 3) {
    __shfl_sync(threadIdx.x == 0 ? 0x3u : 0x7u, 1, 0);
  }
  // Of a whole warp, and of shared memory, which is aligned.
  __shared__ __align__(16) float shared[8];
  float outside[4];
  const auto nothing = +[](void* const*) {};
  const auto something_else = +[](void* const*) { ++warps_seen; };
  if (kWhat == 5 && threadIdx.x > 0) WarpTogether(nothing, nullptr);
  if (kWhat == 6) {
    WarpTogether(threadIdx.x == 0 ? something_else : nothing, nullptr);
  }
  if (kWhat == 7) BeginCopy(shared + 1, nullptr, 16);
  if (kWhat == 8) BeginCopy(outside, nullptr, 4);
  if (kWhat == 9) BeginCopy(shared, shared + 1, 16);
}

// The device is broken for good, as after such a kernel on a real one.
template <int kWhat>
void RunWrong() {
  EXPECT_CUDA_OK(Launch(Wrong<kWhat>, 3, 32, 0, nullptr));
  if (cudaDeviceSynchronize() != cudaErrorLaunchFailure) std::exit(2);
  if (cudaGetLastError() != cudaErrorLaunchFailure) std::exit(3);
  if (cudaGetLastError() != cudaErrorLaunchFailure) std::exit(4);
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, 1) != cudaErrorLaunchFailure) std::exit(5);
  std::exit(0);
}

TEST_F(FatalTestOfTheTester, KernelsThatHangOrMixWarpOperationsAreFound) {
  const testing::ExitedWithCode ok(0);
  EXPECT_EXIT(RunWrong<0>(), ok,
              "Wrong<0>.*deadlock: of 32 threads 0 have ended, 31 wait at a "
              "barrier, others in a warp operation, such as thread .0, 0, 0.");
  EXPECT_EXIT(RunWrong<1>(), ok, "Wrong<1>.*__trap");
  EXPECT_EXIT(RunWrong<2>(), ok, "different warp operations");
  EXPECT_EXIT(RunWrong<3>(), ok, "leaves out the lane that calls");
  EXPECT_EXIT(RunWrong<4>(), ok, "different masks");
  EXPECT_EXIT(RunWrong<5>(), ok, "whole warp lacks lanes");
  EXPECT_EXIT(RunWrong<6>(), ok, "different warp operations");
}

TEST_F(FatalTestOfTheTester, CopiesToOrFromWrongPlacesAreFound) {
  const testing::ExitedWithCode ok(0);
  EXPECT_EXIT(RunWrong<7>(), ok, "shared memory that is not aligned");
  EXPECT_EXIT(RunWrong<8>(), ok, "shared memory outside of the block's");
  EXPECT_EXIT(RunWrong<9>(), ok, "not aligned to it");
}

TEST(Launch, ImpossibleOnesAreRefused) {
  int* const null = nullptr;
  EXPECT_EQ(Launch(Write, 0, 1, 0, nullptr, null, 0),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(Write, 1, 1025, 0, nullptr, null, 0),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(Write, dim3(1, 65536), 1, 0, nullptr, null, 0),
            cudaErrorInvalidConfiguration);
  const size_t large = 100 << 10;
  EXPECT_EQ(Launch(WriteShared, 1, 1, large, nullptr, 0),
            cudaErrorInvalidValue);
  EXPECT_CUDA_OK(cudaFuncSetAttribute(
      WriteShared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  EXPECT_CUDA_OK(Launch(WriteShared, 1, 1, large, nullptr, 0));
  EXPECT_EQ(
      cudaFuncSetAttribute(
          WriteShared, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
      cudaErrorInvalidValue);
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  cudaGetLastError();
}

}  // namespace
}  // namespace gimbal::cuda_host

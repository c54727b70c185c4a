// What a kernel may say beyond C++: qualifiers, its place in the grid,
// barriers, warp operations, atomics. All of it is for kernels alone; a host
// function that calls it ends the process.
#pragma once

#include <stdint.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
// One block runs at a time. Dynamic shared memory is gimbal_shared, below.
#define __shared__ static

namespace gimbal::cuda_host {

inline constexpr int kWarpSize = 32;

// The place of the thread that runs.
struct Place {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
};
extern Place place;

enum class Collective : uint8_t {
  kNone,
  kSyncWarp,
  kShuffle,
  kBallot,
  kTogether,
};

// Waits until every thread of `mask` that has not ended is here, and returns
// what was asked for: kShuffle the value of lane `source`, all bits set where
// that lane takes no part (a device would give anything); kBallot the lanes
// whose value is not 0.
uint64_t WarpCollective(Collective kind, unsigned mask, uint64_t value,
                        int source);

// Waits for all threads of the block that have not ended; returns how many of
// them brought `predicate`.
int BlockBarrier(bool predicate);

// What a warp does as one: waits for all of its 32 lanes, none of which may
// have ended; then `act` is called once with what each of them brought.
void WarpTogether(void (*act)(void* const* lanes), void* mine);

// A copy into shared memory, aligned to its `bytes`; of zeros if `from` is
// null. It is made when the thread waits for its copies. Until then NaNs are
// there.
void BeginCopy(void* to, const void* from, int bytes);
void WaitForCopies();

// Fails unless these bytes are in the block's shared memory, aligned to
// `bytes`.
void CheckShared(const void* at, int bytes);

[[noreturn]] void Trap();

// Bits of a value of at most 8 bytes, and back.
template <typename T>
uint64_t ToBits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t) &&
                std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

int LaneId();

template <typename T>
T Shuffle(unsigned mask, T value, int source) {
  return FromBits<T>(
      WarpCollective(Collective::kShuffle, mask, ToBits(value), source));
}

// The lane `offset` away, or one's own beyond the segment of `width` lanes.
template <typename T>
T ShuffleFrom(unsigned mask, T value, int source, int width) {
  const int first = LaneId() & ~(width - 1);
  const bool inside = source >= first && source < first + width;
  return Shuffle(mask, value, inside ? source : LaneId());
}

}  // namespace gimbal::cuda_host

inline constexpr const uint3& threadIdx = gimbal::cuda_host::place.thread;
inline constexpr const uint3& blockIdx = gimbal::cuda_host::place.block;
inline constexpr const dim3& blockDim = gimbal::cuda_host::place.block_dim;
inline constexpr const dim3& gridDim = gimbal::cuda_host::place.grid_dim;
inline constexpr int warpSize = gimbal::cuda_host::kWarpSize;

// The dynamic shared memory of the block that runs, which nvcc wants declared
// as extern __shared__.
extern unsigned char gimbal_shared[];

inline void __syncthreads() { gimbal::cuda_host::BlockBarrier(false); }
inline int __syncthreads_count(int predicate) {
  return gimbal::cuda_host::BlockBarrier(predicate != 0);
}
inline int __syncthreads_or(int predicate) {
  return gimbal::cuda_host::BlockBarrier(predicate != 0) != 0;
}
inline int __syncthreads_and(int predicate) {
  return gimbal::cuda_host::BlockBarrier(predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  gimbal::cuda_host::WarpCollective(gimbal::cuda_host::Collective::kSyncWarp,
                                    mask, 0, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { gimbal::cuda_host::Trap(); }

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(gimbal::cuda_host::WarpCollective(
      gimbal::cuda_host::Collective::kBallot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate == 0) == 0;
}
// Nothing more is promised than that the caller is among them.
inline unsigned __activemask() { return 1u << gimbal::cuda_host::LaneId(); }

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int first = gimbal::cuda_host::LaneId() & ~(width - 1);
  return gimbal::cuda_host::Shuffle(mask, value, first + (lane & (width - 1)));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return gimbal::cuda_host::ShuffleFrom(
      mask, value, gimbal::cuda_host::LaneId() - static_cast<int>(delta),
      width);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return gimbal::cuda_host::ShuffleFrom(
      mask, value, gimbal::cuda_host::LaneId() + static_cast<int>(delta),
      width);
}
// Unlike the others it may read from lower segments, as on a device.
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = gimbal::cuda_host::LaneId();
  const int end = (lane & ~(width - 1)) + width;
  const int source = lane ^ lane_mask;
  return gimbal::cuda_host::Shuffle(mask, value, source < end ? source : lane);
}

// Threads run between two waits without a break, so atomics are plain.
#define GIMBAL_CUDA_ATOMIC(name, expression)          \
  template <typename T>                               \
  T name(T* address, std::type_identity_t<T> value) { \
    const T old = *address;                           \
    *address = (expression);                          \
    return old;                                       \
  }
GIMBAL_CUDA_ATOMIC(atomicAdd, static_cast<T>(old + value))
GIMBAL_CUDA_ATOMIC(atomicSub, static_cast<T>(old - value))
GIMBAL_CUDA_ATOMIC(atomicMax, old < value ? value : old)
GIMBAL_CUDA_ATOMIC(atomicMin, value < old ? value : old)
GIMBAL_CUDA_ATOMIC(atomicAnd, old& value)
GIMBAL_CUDA_ATOMIC(atomicOr, old | value)
GIMBAL_CUDA_ATOMIC(atomicXor, old ^ value)
GIMBAL_CUDA_ATOMIC(atomicExch, value)
GIMBAL_CUDA_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
#undef GIMBAL_CUDA_ATOMIC
template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> expected,
            std::type_identity_t<T> value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}

// Cache hints.
#define GIMBAL_CUDA_LOAD(name) \
  template <typename T>        \
  T name(const T* address) {   \
    return *address;           \
  }
GIMBAL_CUDA_LOAD(__ldg)
GIMBAL_CUDA_LOAD(__ldca)
GIMBAL_CUDA_LOAD(__ldcg)
GIMBAL_CUDA_LOAD(__ldcs)
GIMBAL_CUDA_LOAD(__ldlu)
GIMBAL_CUDA_LOAD(__ldcv)
#undef GIMBAL_CUDA_LOAD
#define GIMBAL_CUDA_STORE(name)                          \
  template <typename T>                                  \
  void name(T* address, std::type_identity_t<T> value) { \
    *address = value;                                    \
  }
GIMBAL_CUDA_STORE(__stwb)
GIMBAL_CUDA_STORE(__stcg)
GIMBAL_CUDA_STORE(__stcs)
GIMBAL_CUDA_STORE(__stwt)
#undef GIMBAL_CUDA_STORE

// What a warp does with matrices of bf16 on tensor cores: products of 16 x 16
// by 16 x 8 with sums of fp32, as instructions of sm_80 and later, and what
// feeds them. The only PTX there is; without nvcc the layer that plays the
// device has the same functions (tests/cuda_host).
//
// A lane holds a part of each matrix, in words of two numbers, the first one in
// the lower half (PTX ISA, mma.m16n8k16 and ldmatrix). For lane 4 g + t:
//   left  (16 x 16): rows g, g + 8, g, g + 8 of columns 2 t and 2 t + 1, in the
//                    last two words 8 columns on
//   right (16 x 8):  rows 2 t and 2 t + 1 of column g, and 8 rows on
//   sum   (16 x 8):  columns 2 t and 2 t + 1 of row g, then of row g + 8
// So two sums side by side, rounded, are a left factor.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "worker/compute/cuda/element.h"
#ifndef __CUDACC__
#include "gimbal_warp_matrices.h"
#endif

namespace gimbal::compute::cuda {

__device__ inline uint32_t PairOf(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  uint32_t word;
  memcpy(&word, &pair, sizeof word);
  return word;
}

#ifdef __CUDACC__

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// sum += left right.
__device__ inline void MultiplyAdd(float (&sum)[4], const uint32_t (&left)[4],
                                   const uint32_t (&right)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),
        "r"(right[1]));
}

// Four matrices of 8 x 8 in shared memory; lane 8 i + j brings row j of the
// i-th, 16 bytes. Word i is columns 2 t and 2 t + 1 of row g.
__device__ inline void LoadMatrices(uint32_t (&to)[4], const Bf16* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(SharedAddress(row))
      : "memory");
}

// Word i is rows 2 t and 2 t + 1 of column g.
__device__ inline void LoadTransposed(uint32_t (&to)[4], const Bf16* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(SharedAddress(row))
      : "memory");
}

// Begins to copy 16 bytes into shared memory, or zeros; in bf16 past the first
// cache, in fp32 4 bytes through it.
__device__ inline void BeginCopy(Bf16* to, const Bf16* from, bool zeros) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)),
      "l"(from), "r"(zeros ? 0 : 16)
      : "memory");
}
__device__ inline void BeginCopy(float* to, const float* from, bool zeros) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)),
      "l"(from), "r"(zeros ? 0 : 4)
      : "memory");
}

// For those of the thread; a barrier shows them to the others.
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// 2^x, with 22 bits.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

inline void MultiplyAdd(float (&sum)[4], const uint32_t (&left)[4],
                        const uint32_t (&right)[2]) {
  cuda_host::MultiplyAdd(sum, left, right);
}
inline void LoadMatrices(uint32_t (&to)[4], const Bf16* row) {
  cuda_host::LoadMatrices(to, row, /*transposed=*/false);
}
inline void LoadTransposed(uint32_t (&to)[4], const Bf16* row) {
  cuda_host::LoadMatrices(to, row, /*transposed=*/true);
}
template <typename T>
void BeginCopy(T* to, const T* from, bool zeros) {
  const int bytes = sizeof(T) == 2 ? 16 : 4;
  cuda_host::BeginCopy(to, zeros ? nullptr : from, bytes);
}
inline void WaitForCopies() { cuda_host::WaitForCopies(); }
inline float Exp2(float x) { return cuda_host::Exp2(x); }

#endif

}  // namespace gimbal::compute::cuda

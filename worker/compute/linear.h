// Linear layer: y = x w^T + bias + addend.
//
// Shapes: x [rows, in], w [out, in], bias [out], addend and y [rows, out].
// The bias and the residual stream (`addend`) are what the GEMM accumulates on,
// so they cost no pass of their own. Both may be null.
// Parameter gradients are added to; dx is written.
#pragma once

#include <cstdint>

namespace gimbal::compute {

struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

template <typename T>
void LinearForward(const LinearShape& shape, const T* x, const T* w,
                   const T* bias, const T* addend, T* y);

template <typename T>
void LinearBackwardInput(const LinearShape& shape, const T* dy, const T* w,
                         T* dx);

// `dbias` may be null.
template <typename T>
void LinearBackwardWeight(const LinearShape& shape, const T* dy, const T* x,
                          T* dw, T* dbias);

// Kernels for the functions above.
template <typename T>
struct BiasKernels {
  // y = bias + addend, for every row; either may be null, not both.
  void (*fill)(int64_t rows, int64_t cols, const T* bias, const T* addend,
               T* y);
  // sum[j] += sum of x[:, j], in eight rows at a time.
  void (*column_sum)(int64_t rows, int64_t cols, const T* x, T* sum);
};

}  // namespace gimbal::compute

// LayerNorm over rows: xhat = (x - mean) / sqrt(var + eps), y = xhat w + b,
// with the biased variance.
//
// Shapes: x, y, dy, dx [rows, cols]; w, b [cols]; mean, rstd [rows] are written
// by forward and needed by backward.
// Parameter gradients are added to. `dx` is the gradient of the residual stream
// that x was read from, so it is added to as well.
#pragma once

#include <cstdint>

namespace gimbal::compute {

template <typename T>
struct LayerNorm {
  void (*forward)(int64_t rows, int64_t cols, T eps, const T* x, const T* w,
                  const T* b, T* y, T* mean, T* rstd);
  // Replaces dy by y, forward's output: the weight gradient of the matrix
  // behind the norm needs it, and here it costs nothing to make again.
  void (*backward)(int64_t rows, int64_t cols, const T* x, const T* w,
                   const T* b, const T* mean, const T* rstd, T* dy_to_y, T* dw,
                   T* db, T* dx);
};

}  // namespace gimbal::compute

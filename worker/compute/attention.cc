#include "worker/compute/attention.h"

#include <algorithm>
#include <cmath>

#include "worker/compute/gemm.h"
#include "worker/compute/isa.h"

namespace gimbal::compute {
namespace {

constexpr int64_t kTileRows = kAttentionTileRows;

int64_t TileRows(const AttentionShape& shape) {
  return std::min(kTileRows, shape.context);
}

template <typename T>
T Scale(const AttentionShape& shape) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
}

}  // namespace

int64_t AttentionScratch(const AttentionShape& shape) {
  return 2 * TileRows(shape) * shape.context;
}

template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* o, T* lse,
                      T* scratch) {
  const auto& kernels = Kernels<AttentionKernels<T>>();
  const auto [samples, context, heads, d] = shape;
  const int64_t c = heads * d;
  T inverse[kTileRows];
  for (int64_t group = 0; group < samples * heads; ++group) {
    const int64_t sample = group / heads;
    const int64_t head = group % heads;
    const T* q = qkv + sample * context * 3 * c + head * d;
    T* out = o + sample * context * c + head * d;
    for (int64_t row = 0; row < context; row += kTileRows) {
      const int64_t rows = std::min(kTileRows, context - row);
      const int64_t cols = row + rows;
      Gemm<T>(Trans::kNo, Trans::kYes, rows, cols, d, 1, q + row * 3 * c, 3 * c,
              q + c, 3 * c, 0, scratch, cols);
      kernels.softmax(rows, row, Scale<T>(shape), scratch, inverse,
                      lse + (sample * context + row) * heads + head, heads);
      Gemm<T>(Trans::kNo, Trans::kNo, rows, d, cols, 1, scratch, cols,
              q + 2 * c, 3 * c, 0, out + row * c, c);
      kernels.scale_rows(rows, d, inverse, out + row * c, c);
    }
  }
}

template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* o,
                       const T* lse, const T* dout, T* dqkv, T* scratch) {
  const auto& kernels = Kernels<AttentionKernels<T>>();
  const auto [samples, context, heads, d] = shape;
  const int64_t c = heads * d;
  T* p = scratch;
  T* ds = scratch + TileRows(shape) * context;
  for (int64_t group = 0; group < samples * heads; ++group) {
    const int64_t head = group % heads;
    const int64_t first = group / heads * context;  // row of the sample
    const T* q = qkv + first * 3 * c + head * d;
    T* dq = dqkv + first * 3 * c + head * d;
    // From the last tile, which writes every row of dk and dv; the others add.
    for (int64_t row = (context - 1) / kTileRows * kTileRows; row >= 0;
         row -= kTileRows) {
      const int64_t rows = std::min(kTileRows, context - row);
      const int64_t cols = row + rows;
      const T beta = cols == context ? 0 : 1;
      const T* tile_do = dout + (first + row) * c + head * d;
      Gemm<T>(Trans::kNo, Trans::kYes, rows, cols, d, 1, q + row * 3 * c, 3 * c,
              q + c, 3 * c, 0, p, cols);
      Gemm<T>(Trans::kNo, Trans::kYes, rows, cols, d, 1, tile_do, c, q + 2 * c,
              3 * c, 0, ds, cols);
      kernels.backward(rows, row, d, Scale<T>(shape),
                       o + (first + row) * c + head * d, tile_do, c,
                       lse + (first + row) * heads + head, heads, p, ds);
      Gemm<T>(Trans::kYes, Trans::kNo, cols, d, rows, 1, p, cols, tile_do, c,
              beta, dq + 2 * c, 3 * c);
      Gemm<T>(Trans::kYes, Trans::kNo, cols, d, rows, 1, ds, cols,
              q + row * 3 * c, 3 * c, beta, dq + c, 3 * c);
      Gemm<T>(Trans::kNo, Trans::kNo, rows, d, cols, 1, ds, cols, q + c, 3 * c,
              0, dq + row * 3 * c, 3 * c);
    }
  }
}

#define GIMBAL_INSTANTIATE(T)                                                \
  template void AttentionForward<T>(const AttentionShape&, const T*, T*, T*, \
                                    T*);                                     \
  template void AttentionBackward<T>(const AttentionShape&, const T*,        \
                                     const T*, const T*, const T*, T*, T*);
GIMBAL_INSTANTIATE(float)
GIMBAL_INSTANTIATE(double)
#undef GIMBAL_INSTANTIATE

}  // namespace gimbal::compute

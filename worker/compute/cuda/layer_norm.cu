#include <algorithm>

#include "worker/compute/cuda/launch.h"
#include "worker/compute/cuda/layer_norm.h"
#include "worker/compute/cuda/pack.cuh"

namespace gimbal::compute::cuda {
namespace {

constexpr int kForwardWarps = 4;
constexpr int kMaxThreads = 256;
constexpr int kReduceThreads = 128;

template <int W, typename T>
__global__ void __launch_bounds__(kForwardWarps* kWarp)
    Forward(int64_t rows, int64_t cols, float eps, const T* x, const float* w,
            const float* b, T* y, float* mean, float* rstd) {
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kForwardWarps + threadIdx.x / kWarp;
  if (row >= rows) return;  // a whole warp
  const int64_t first = threadIdx.x % kWarp * W;
  const float scale = 1.0f / static_cast<float>(cols);
  const T* in = x + row * cols;
  float sum = 0;
  for (int64_t col = first; col < cols; col += kWarp * W) {
    const Pack<W> pack = Load<W>(in + col);
    for (int j = 0; j < W; ++j) sum += pack.at[j];
  }
  const float m = scale * WarpSum(sum);
  float squares = 0;
  for (int64_t col = first; col < cols; col += kWarp * W) {
    const Pack<W> pack = Load<W>(in + col);
    for (int j = 0; j < W; ++j) {
      squares += (pack.at[j] - m) * (pack.at[j] - m);
    }
  }
  const float r = 1 / sqrtf(scale * WarpSum(squares) + eps);
  if (first == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
  for (int64_t col = first; col < cols; col += kWarp * W) {
    Pack<W> pack = Load<W>(in + col);
    const Pack<W> wi = Load<W>(w + col), bi = Load<W>(b + col);
    for (int j = 0; j < W; ++j) {
      pack.at[j] = (pack.at[j] - m) * r * wi.at[j] + bi.at[j];
    }
    Store(y + row * cols + col, pack);
  }
}

template <typename T>
struct BackwardArrays {
  const T* x;
  const float* w;
  const float* b;
  const float* mean;
  const float* rstd;
  T* dy_to_y;
  T* dx;
  float* partial;  // [blocks, 2, cols]
};

// A thread owns K packs of columns, blockDim.x packs apart, of every row of the
// block.
template <int W, int K, typename T>
__global__ void __launch_bounds__(kMaxThreads, 1)
    Backward(int64_t rows, int64_t cols, BackwardArrays<T> a) {
  __shared__ float shared[2][2][kMaxThreads / kWarp];
  const float scale = 1.0f / static_cast<float>(cols);
  const int64_t stride = static_cast<int64_t>(blockDim.x) * W;
  const int64_t first = static_cast<int64_t>(threadIdx.x) * W;
  Pack<W> dw[K] = {}, db[K] = {};
  int turn = 0;  // two sets of sums, so that one barrier per row is enough
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float m = a.mean[row];
    const float r = a.rstd[row];
    Pack<W> d[K] = {}, xhat[K] = {};
    float g = 0, gx = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t col = first + k * stride;
      if (col >= cols) continue;
      d[k] = Load<W>(a.dy_to_y + row * cols + col);
      xhat[k] = Load<W>(a.x + row * cols + col);
      const Pack<W> w = Load<W>(a.w + col);
      for (int j = 0; j < W; ++j) {
        xhat[k].at[j] = (xhat[k].at[j] - m) * r;
        g += d[k].at[j] * w.at[j];
        gx += d[k].at[j] * w.at[j] * xhat[k].at[j];
      }
    }
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    g = WarpSum(g);
    gx = WarpSum(gx);
    if (threadIdx.x % kWarp == 0) {
      shared[turn][0][warp] = g;
      shared[turn][1][warp] = gx;
    }
    __syncthreads();
    float mean_g = 0, mean_gx = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x) / kWarp; ++i) {
      mean_g += shared[turn][0][i];
      mean_gx += shared[turn][1][i];
    }
    mean_g *= scale;
    mean_gx *= scale;
    turn ^= 1;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t col = first + k * stride;
      if (col >= cols) continue;
      const Pack<W> w = Load<W>(a.w + col), b = Load<W>(a.b + col);
      Pack<W> dx = Load<W>(a.dx + row * cols + col);
      for (int j = 0; j < W; ++j) {
        const float dj = d[k].at[j], xj = xhat[k].at[j];
        dw[k].at[j] += dj * xj;
        db[k].at[j] += dj;
        dx.at[j] += r * (dj * w.at[j] - mean_g - xj * mean_gx);
        d[k].at[j] = xj * w.at[j] + b.at[j];
      }
      Store(a.dx + row * cols + col, dx);
      Store(a.dy_to_y + row * cols + col, d[k]);
    }
  }
  float* partial = a.partial + static_cast<int64_t>(blockIdx.x) * 2 * cols;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t col = first + k * stride;
    if (col >= cols) continue;
    for (int j = 0; j < W; ++j) {
      partial[col + j] = dw[k].at[j];
      partial[cols + col + j] = db[k].at[j];
    }
  }
}

// Columns [0, cols) of a partial are dw's, [cols, 2 cols) db's.
__global__ void AddPartials(int64_t blocks, int64_t cols, const float* partial,
                            float* dw, float* db) {
  const int64_t col =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (col >= 2 * cols) return;
  float sum = 0;
  for (int64_t i = 0; i < blocks; ++i) sum += partial[i * 2 * cols + col];
  (col < cols ? dw[col] : db[col - cols]) += sum;
}

template <int W, int K, typename T>
void LaunchBackward(cudaStream_t stream, int64_t blocks, int64_t rows,
                    int64_t cols, const BackwardArrays<T>& arrays) {
  const int64_t packs = (cols + W - 1) / W;
  const int64_t threads =
      std::min<int64_t>(kMaxThreads, (packs + kWarp - 1) / kWarp * kWarp);
  Launch(Backward<W, K, T>, static_cast<unsigned>(blocks),
         static_cast<unsigned>(threads), 0, stream, rows, cols, arrays);
}

template <int W, typename T>
void ChooseBackward(cudaStream_t stream, int64_t blocks, int64_t rows,
                    int64_t cols, const BackwardArrays<T>& arrays) {
  const int64_t packs = Blocks(cols, kMaxThreads * W);  // per thread
  constexpr int kMost = W == 8 ? 4 : 8;  // enough for kLayerNormMaxCols
  const auto launch = packs <= 1   ? LaunchBackward<W, 1, T>
                      : packs <= 2 ? LaunchBackward<W, 2, T>
                      : packs <= 4 ? LaunchBackward<W, 4, T>
                                   : LaunchBackward<W, kMost, T>;
  launch(stream, blocks, rows, cols, arrays);
}

}  // namespace

template <typename T>
void LayerNormForward(cudaStream_t stream, int64_t rows, int64_t cols,
                      float eps, const T* x, const float* w, const float* b,
                      T* y, float* mean, float* rstd) {
  Launch(cols % kPack<T> == 0 ? Forward<kPack<T>, T> : Forward<1, T>,
         Blocks(rows, kForwardWarps), kForwardWarps * kWarp, 0, stream, rows,
         cols, eps, x, w, b, y, mean, rstd);
}

template <typename T>
void LayerNormBackward(cudaStream_t stream, int64_t rows, int64_t cols,
                       const T* x, const float* w, const float* b,
                       const float* mean, const float* rstd, T* dy_to_y,
                       float* dw, float* db, T* dx, float* scratch) {
  const int64_t blocks = std::min(rows, kLayerNormBlocks);
  const BackwardArrays<T> arrays{x, w, b, mean, rstd, dy_to_y, dx, scratch};
  (cols % kPack<T> == 0
       ? ChooseBackward<kPack<T>, T>
       : ChooseBackward<1, T>)(stream, blocks, rows, cols, arrays);
  Launch(AddPartials, Blocks(2 * cols, kReduceThreads), kReduceThreads, 0,
         stream, blocks, cols, scratch, dw, db);
}

template void LayerNormForward(cudaStream_t, int64_t, int64_t, float,
                               const float*, const float*, const float*, float*,
                               float*, float*);
template void LayerNormForward(cudaStream_t, int64_t, int64_t, float,
                               const Bf16*, const float*, const float*, Bf16*,
                               float*, float*);
template void LayerNormBackward(cudaStream_t, int64_t, int64_t, const float*,
                                const float*, const float*, const float*,
                                const float*, float*, float*, float*, float*,
                                float*);
template void LayerNormBackward(cudaStream_t, int64_t, int64_t, const Bf16*,
                                const float*, const float*, const float*,
                                const float*, Bf16*, float*, float*, Bf16*,
                                float*);

}  // namespace gimbal::compute::cuda

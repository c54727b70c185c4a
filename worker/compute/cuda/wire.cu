#include "worker/compute/cuda/for_each.cuh"
#include "worker/compute/cuda/wire.h"

namespace gimbal::compute::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kInfinity = 0x7f800000u;
constexpr unsigned kMagnitude = 0x7fffffffu;

// W halves moved by one instruction.
template <int W>
struct alignas(W * 2) HalfPack {
  uint16_t at[W];
};

// A NaN keeps a bit of its fraction that is not cut off.
__device__ inline uint16_t NearestBf16(float x) {
  const unsigned bits = __float_as_uint(x);
  const bool nan = (bits & kMagnitude) > kInfinity;
  const unsigned nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((nan ? bits | 0x400000u : nearest) >> 16);
}

struct ToBf16Op {
  template <int W>
  __device__ void At(int64_t i) const {
    const Pack<W> pack = Load<W>(x + i);
    HalfPack<W> half;
    for (int j = 0; j < W; ++j) half.at[j] = NearestBf16(pack.at[j]);
    *reinterpret_cast<HalfPack<W>*>(out + i) = half;
  }
  const float* x;
  uint16_t* out;
};

struct FromBf16Op {
  template <int W>
  __device__ void At(int64_t i) const {
    const auto half = *reinterpret_cast<const HalfPack<W>*>(x + i);
    Pack<W> pack;
    for (int j = 0; j < W; ++j) {
      pack.at[j] = __uint_as_float(static_cast<unsigned>(half.at[j]) << 16);
    }
    Store(out + i, pack);
  }
  const uint16_t* x;
  float* out;
};

// Magnitudes are in the order of their bits, with NaN above all.
__device__ inline unsigned BlockLargest(unsigned x, unsigned* shared) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    x = max(x, __shfl_xor_sync(kAllLanes, x, step));
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = shared[0];
  for (int i = 1; i < kThreads / kWarp; ++i) x = max(x, shared[i]);
  return x;
}

// A block per row.
__global__ void __launch_bounds__(kThreads)
    ToInt8Kernel(int64_t cols, const float* x, float* scales, int8_t* out) {
  __shared__ unsigned shared[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  x += row * cols;
  out += row * cols;
  unsigned bits = 0;
  for (int64_t j = threadIdx.x; j < cols; j += kThreads) {
    bits = max(bits, __float_as_uint(x[j]) & kMagnitude);
  }
  bits = BlockLargest(bits, shared);
  const float most = __uint_as_float(bits);
  const bool finite = bits < kInfinity;
  const bool counts = finite && most >= 1e-30f;
  if (threadIdx.x == 0) {
    scales[row] = counts   ? most / 127
                  : finite ? 0
                           : __uint_as_float(0x7fc00000u);
  }
  const float factor = counts ? 127 / most : 0;
  for (int64_t j = threadIdx.x; j < cols; j += kThreads) {
    const float scaled = counts ? x[j] * factor : 0;
    out[j] = static_cast<int8_t>(static_cast<int>(rintf(scaled)));
  }
}

__global__ void __launch_bounds__(kThreads)
    FromInt8Kernel(int64_t cols, const float* scales, const int8_t* x,
                   float* out) {
  const int64_t row = blockIdx.x;
  const float scale = scales[row];
  for (int64_t j = threadIdx.x; j < cols; j += kThreads) {
    out[row * cols + j] = scale * static_cast<float>(x[row * cols + j]);
  }
}

}  // namespace

void EncodeWire(cudaStream_t stream, WireFormat format, int64_t rows,
                int64_t cols, const float* x, std::byte* wire) {
  const auto blocks = static_cast<unsigned>(rows);
  switch (format) {
    case WireFormat::kFp32:
      GIMBAL_CUDA_CHECK(cudaMemcpyAsync(
          wire, x, static_cast<size_t>(WireBytes(format, rows, cols)),
          cudaMemcpyDeviceToDevice, stream));
      break;
    case WireFormat::kBf16:
      ForEach(stream, rows * cols,
              ToBf16Op{x, reinterpret_cast<uint16_t*>(wire)}, {x, wire});
      break;
    case WireFormat::kInt8:
      Launch(ToInt8Kernel, blocks, kThreads, 0, stream, cols, x,
             reinterpret_cast<float*>(wire),
             reinterpret_cast<int8_t*>(wire + rows * 4));
      break;
  }
}

void DecodeWire(cudaStream_t stream, WireFormat format, int64_t rows,
                int64_t cols, const std::byte* wire, float* x) {
  const auto blocks = static_cast<unsigned>(rows);
  switch (format) {
    case WireFormat::kFp32:
      GIMBAL_CUDA_CHECK(cudaMemcpyAsync(
          x, wire, static_cast<size_t>(WireBytes(format, rows, cols)),
          cudaMemcpyDeviceToDevice, stream));
      break;
    case WireFormat::kBf16:
      ForEach(stream, rows * cols,
              FromBf16Op{reinterpret_cast<const uint16_t*>(wire), x},
              {x, wire});
      break;
    case WireFormat::kInt8:
      Launch(FromInt8Kernel, blocks, kThreads, 0, stream, cols,
             reinterpret_cast<const float*>(wire),
             reinterpret_cast<const int8_t*>(wire + rows * 4), x);
      break;
  }
}

}  // namespace gimbal::compute::cuda

// Device memory for tests of CUDA ops, as vectors that are copied there and
// back, and what the tests share: inputs, tolerances, seeds of the host layer.
//
// A test of an op that there is in fp32 and bf16 is a template over the element
// type. In bf16 inputs are rounded beforehand, and the results are what the CPU
// makes of those, rounded once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>
#include <vector>

#include "common/base/random.h"
#include "worker/compute/cuda/element.h"
#include "worker/compute/cuda/memory.h"

namespace gimbal::compute::cuda {

// What is of bf16 on the device is of floats on the host.
template <typename T>
class DeviceArray {
 public:
  using OnHost = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;

  // NaNs, so that what nobody writes is seen.
  explicit DeviceArray(int64_t size)
      : DeviceArray(std::vector<OnHost>(static_cast<size_t>(size),
                                        static_cast<OnHost>(NAN))) {}
  explicit DeviceArray(const std::vector<OnHost>& values)
      : buffer_(static_cast<int64_t>(values.size())) {
    const std::vector<T> elements(values.begin(), values.end());
    GIMBAL_CUDA_CHECK(cudaMemcpy(buffer_.data(), elements.data(),
                                 buffer_.bytes(), cudaMemcpyHostToDevice));
  }
  T* data() const { return buffer_.data(); }
  // Of what has been enqueued into the stream.
  std::vector<OnHost> Values(const Stream& stream) const {
    stream.Wait();
    std::vector<T> elements(static_cast<size_t>(buffer_.size()));
    GIMBAL_CUDA_CHECK(cudaMemcpy(elements.data(), buffer_.data(),
                                 buffer_.bytes(), cudaMemcpyDeviceToHost));
    return {elements.begin(), elements.end()};
  }

 private:
  DeviceBuffer<T> buffer_;
};

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats RandomFloats(int64_t n, uint64_t stream, double scale = 1) {
  Floats values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(scale * base::RandomNormal(11, stream, i));
  }
  return values;
}

// As elements of T hold them.
template <typename T>
Floats RandomOf(int64_t n, uint64_t stream, double scale = 1) {
  Floats values = RandomFloats(n, stream, scale);
  for (float& value : values) value = static_cast<float>(static_cast<T>(value));
  return values;
}

inline std::vector<int32_t> RandomIds(int64_t n, int64_t below) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(base::RandomBits(12, 0, i) %
                                  static_cast<uint64_t>(below));
  }
  return ids;
}

inline Doubles ToDouble(const Floats& x) { return {x.begin(), x.end()}; }

// Rounding to bf16 moves a number by at most this part of itself, half the
// distance of its neighbours.
inline constexpr double kBf16Rounding = 1.0 / 256;

// |actual - expected| <= tolerance * (1 + the largest expected number), and in
// bf16 a rounding more. `inner`: what roundings on the way may have done to
// each number, too; empty: nothing.
template <typename T = float>
void ExpectClose(const Floats& actual, const Doubles& expected,
                 double tolerance, const char* what,
                 const Doubles& inner = {}) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < actual.size(); ++i) {
    const double moved = inner.empty() ? 0 : inner[i];
    const double rounding =
        std::is_same_v<T, Bf16>
            ? kBf16Rounding * (std::abs(expected[i]) + moved)
            : 0;
    ASSERT_LE(std::abs(actual[i] - expected[i]),
              tolerance * (1 + largest) + moved + rounding)
        << what << "[" << i << "]: " << actual[i] << ", expected "
        << expected[i];
  }
}

// Runs `op` under 20 orders of threads, blocks and streams (device_order.h);
// they must not show in a single bit.
Floats UnderAllSeeds(const std::function<Floats(const Stream&)>& op);

inline Floats Joined(std::initializer_list<Floats> parts) {
  Floats all;
  for (const Floats& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace gimbal::compute::cuda

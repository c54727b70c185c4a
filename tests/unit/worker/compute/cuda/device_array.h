// Device memory for tests of CUDA ops, as vectors that are copied there and
// back, and what the tests share: inputs, a tolerance, seeds of the host layer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "common/base/random.h"
#include "worker/compute/cuda/memory.h"

namespace gimbal::compute::cuda {

template <typename T>
class DeviceArray {
 public:
  // NaNs, so that what nobody writes is seen.
  explicit DeviceArray(int64_t size)
      : DeviceArray(
            std::vector<T>(static_cast<size_t>(size), static_cast<T>(NAN))) {}
  explicit DeviceArray(const std::vector<T>& values)
      : buffer_(static_cast<int64_t>(values.size())) {
    GIMBAL_CUDA_CHECK(cudaMemcpy(buffer_.data(), values.data(), buffer_.bytes(),
                                 cudaMemcpyHostToDevice));
  }
  T* data() const { return buffer_.data(); }
  // Of what has been enqueued into the stream.
  std::vector<T> Values(const Stream& stream) const {
    stream.Wait();
    std::vector<T> values(static_cast<size_t>(buffer_.size()));
    GIMBAL_CUDA_CHECK(cudaMemcpy(values.data(), buffer_.data(), buffer_.bytes(),
                                 cudaMemcpyDeviceToHost));
    return values;
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

inline std::vector<int32_t> RandomIds(int64_t n, int64_t below) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(base::RandomBits(12, 0, i) %
                                  static_cast<uint64_t>(below));
  }
  return ids;
}

inline Doubles ToDouble(const Floats& x) { return {x.begin(), x.end()}; }

// |actual - expected| <= tolerance * (1 + the largest expected number).
inline void ExpectClose(const Floats& actual, const Doubles& expected,
                        double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance * (1 + largest))
        << what << "[" << i << "]: " << actual[i] << ", expected "
        << expected[i];
  }
}

// Runs `op` under 20 orders of threads, blocks and streams (device_order.h); they
// must not show in a single bit.
Floats UnderAllSeeds(const std::function<Floats(const Stream&)>& op);

inline Floats Joined(std::initializer_list<Floats> parts) {
  Floats all;
  for (const Floats& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace gimbal::compute::cuda

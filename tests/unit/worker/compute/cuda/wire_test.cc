// Boundary tensors as they travel: the CPU's bits.
#include "worker/compute/cuda/wire.h"

#include <cstring>
#include <limits>

#include "tests/unit/worker/compute/cuda/device_array.h"
#include "worker/compute/wire.h"

namespace gimbal::compute::cuda {
namespace {

// The first `bytes` of what was sent, and what came of it.
std::vector<std::byte> Written(const Floats& x, int64_t bytes, int64_t room) {
  std::vector<std::byte> all(x.size() * sizeof(float));
  std::memcpy(all.data(), x.data(), all.size());
  all.erase(all.begin() + bytes, all.begin() + room * 4);
  return all;
}

struct Shape {
  WireFormat format;
  int64_t rows, cols;
};

class CudaWireTest : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(All, CudaWireTest,
                         testing::Values(Shape{WireFormat::kFp32, 3, 37},
                                         Shape{WireFormat::kBf16, 3, 37},
                                         Shape{WireFormat::kBf16, 64, 64},
                                         Shape{WireFormat::kInt8, 3, 37},
                                         Shape{WireFormat::kInt8, 5, 1},
                                         Shape{WireFormat::kInt8, 2, 1031}));

TEST_P(CudaWireTest, HasTheCpusBits) {
  const auto [format, rows, cols] = GetParam();
  Floats x = RandomFloats(rows * cols, 1);
  x[0] = 1e-33f;
  x[static_cast<size_t>(rows * cols) - 1] =
      std::numeric_limits<float>::quiet_NaN();
  const int64_t bytes = WireBytes(format, rows, cols);
  // Whole floats to hold them.
  const int64_t room = (bytes + 3) / 4;
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<float> in(x), wire(room), back(rows * cols);
    auto* const there = reinterpret_cast<std::byte*>(wire.data());
    EncodeWire(stream.get(), format, rows, cols, in.data(), there);
    DecodeWire(stream.get(), format, rows, cols, there, back.data());
    return Joined({wire.Values(stream), back.Values(stream)});
  });
  Floats expected(static_cast<size_t>(room + rows * cols));
  auto* const there = reinterpret_cast<std::byte*>(expected.data());
  compute::EncodeWire(format, rows, cols, x.data(), there);
  compute::DecodeWire(format, rows, cols, there, expected.data() + room);
  EXPECT_EQ(Written(got, bytes, room), Written(expected, bytes, room));
}

}  // namespace
}  // namespace gimbal::compute::cuda

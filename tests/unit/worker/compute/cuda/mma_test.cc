// The instructions of tensor cores, or what stands in for them, against plain
// loops.
#include "tests/unit/worker/compute/cuda/device_array.h"
#include "tests/unit/worker/compute/cuda/mma_kernels.h"

namespace gimbal::compute::cuda {
namespace {

// Multiples of 1/8, whose products have exact sums in any order.
Floats Eighths(int64_t n, uint64_t stream) {
  Floats values = RandomFloats(n, stream, 8);
  for (float& value : values) value = std::round(value) / 8;
  return values;
}

void ExpectProducts(bool transposed) {
  const Floats left = Eighths(16 * 16, 1), right = Eighths(16 * 16, 2),
               sum = Eighths(16 * 8, 3);
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<Bf16> l(left), r(right);
    const DeviceArray<float> s(sum);
    MultiplyByWarp(stream.get(), transposed, l.data(), r.data(), s.data());
    return s.Values(stream);
  });
  for (size_t row = 0; row < 16; ++row) {
    for (size_t col = 0; col < 8; ++col) {
      float expected = sum[row * 8 + col];
      for (size_t k = 0; k < 16; ++k) {
        expected += left[row * 16 + k] *
                    right[transposed ? col * 16 + k : k * 16 + col];
      }
      EXPECT_EQ(got[row * 8 + col], expected) << row << ", " << col;
    }
  }
}

TEST(WarpMatrixTest, ProductsAreThoseOfMatrices) { ExpectProducts(false); }

TEST(WarpMatrixTest, AFactorMayBeTransposed) { ExpectProducts(true); }

TEST(WarpMatrixTest, CopiesBringNumbersOrZeros) {
  const Floats numbers = RandomFloats(32, 1);
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<float> from(numbers), out(32);
    CopyByWarp(stream.get(), from.data(), out.data());
    return out.Values(stream);
  });
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(got[i], i % 2 == 0 ? 0 : numbers[31 - i]) << i;
  }
}

TEST(WarpMatrixTest, PowersOf2AreGoodTo22Bits) {
  Floats x = RandomFloats(32, 1, 20);
  x[0] = 0;
  x[1] = -INFINITY;
  const Stream stream;
  const DeviceArray<float> in(x), out(32);
  Exp2ByWarp(stream.get(), in.data(), out.data());
  const Floats got = out.Values(stream);
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 0);
  for (size_t i = 2; i < 32; ++i) {
    const double expected = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(got[i], expected, expected / (1 << 22)) << x[i];
  }
}

}  // namespace
}  // namespace gimbal::compute::cuda

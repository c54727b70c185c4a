#include "worker/compute/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::RandomValues;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class WireTest : public IsaTest {
 protected:
  const WireKernels& kernels() const {
    return KernelsFor<WireKernels>(GetParam());
  }
  std::vector<float> ThroughBf16(const std::vector<float>& x) const {
    std::vector<uint16_t> wire(x.size());
    std::vector<float> back(x.size());
    const auto n = static_cast<int64_t>(x.size());
    kernels().to_bf16(n, x.data(), wire.data());
    kernels().from_bf16(n, wire.data(), back.data());
    return back;
  }
  std::vector<float> ThroughInt8(int64_t rows, const std::vector<float>& x) {
    const int64_t cols = static_cast<int64_t>(x.size()) / rows;
    scales_.assign(static_cast<size_t>(rows), -1);
    whole_.assign(x.size(), 99);
    std::vector<float> back(x.size());
    kernels().to_int8(rows, cols, x.data(), scales_.data(), whole_.data());
    kernels().from_int8(rows, cols, scales_.data(), whole_.data(), back.data());
    return back;
  }

  std::vector<float> scales_;
  std::vector<int8_t> whole_;
};
INSTANTIATE_TEST_SUITE_P(Isa, WireTest, ::testing::ValuesIn(SupportedIsas()),
                         IsaName);

TEST_P(WireTest, Bf16RoundsToTheNearestTiesToEven) {
  const float one = 1, next = 1 + 1.0f / 128;  // neighbours in bf16
  const float tie = 1 + 1.0f / 256, above = std::nextafter(tie, 2.0f);
  const float odd_tie = next + 1.0f / 256;
  const std::vector<float> back = ThroughBf16(
      {one, tie, above, -tie, odd_tie, 0, -0.0f, 3e38f, 1e-40f, 3.4e38f});
  EXPECT_EQ(back[0], one);
  EXPECT_EQ(back[1], one);
  EXPECT_EQ(back[2], next);
  EXPECT_EQ(back[3], -one);
  EXPECT_EQ(back[4], 1 + 2.0f / 128);
  EXPECT_EQ(back[5], 0);
  EXPECT_TRUE(std::signbit(back[6]));
  EXPECT_NEAR(back[7], 3e38f, 3e38f / 256);
  EXPECT_NEAR(back[8], 1e-40f, 1e-40f);
  EXPECT_EQ(back[9], kInf);
}

TEST_P(WireTest, Bf16KeepsWhatIsNotFinite) {
  float thin;  // a NaN whose fraction would be cut off
  const uint32_t bits = 0x7f800001;
  std::memcpy(&thin, &bits, sizeof thin);
  const std::vector<float> back = ThroughBf16({kInf, -kInf, kNan, -kNan, thin});
  EXPECT_EQ(back[0], kInf);
  EXPECT_EQ(back[1], -kInf);
  for (size_t i = 2; i < back.size(); ++i) EXPECT_TRUE(std::isnan(back[i]));
}

TEST_P(WireTest, Int8IsWithinHalfAStepOfEachRow) {
  constexpr int64_t kRows = 5, kCols = 133;
  std::vector<float> x = RandomValues<float>(kRows * kCols, "x");
  for (int64_t j = 0; j < kCols; ++j) {
    x[1 * kCols + j] *= 1e-9f;
    x[2 * kCols + j] *= 1e20f;
    x[3 * kCols + j] = 0;
    x[4 * kCols + j] *= 1e-33f;
  }
  const std::vector<float> back = ThroughInt8(kRows, x);
  for (int64_t i = 0; i < kRows; ++i) {
    float most = 0;
    for (int64_t j = 0; j < kCols; ++j) {
      most = std::max(most, std::abs(x[i * kCols + j]));
    }
    for (int64_t j = 0; j < kCols; ++j) {
      EXPECT_NEAR(back[i * kCols + j], i == 4 ? 0 : x[i * kCols + j],
                  most / 127 * 0.50001f)
          << i << ", " << j;
    }
  }
}

TEST_P(WireTest, Int8GivesBackNoNumberOfARowThatIsNotFinite) {
  for (const float bad : {kInf, -kInf, kNan, -kNan}) {
    std::vector<float> x(3 * 17, 0.5f);
    x[17 + 16] = bad;
    const std::vector<float> back = ThroughInt8(3, x);
    for (size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(std::isnan(back[i]), i / 17 == 1) << bad << " " << i;
    }
  }
}

// A run goes on on another CPU with the same bits on its links.
TEST_P(WireTest, EveryInstructionSetWritesTheSameBits) {
  const std::vector<float> x = RandomValues<float>(7 * 61, "y");
  const std::vector<float> back = ThroughInt8(7, x);
  const std::vector<int8_t> whole = whole_;
  const std::vector<float> scales = scales_;
  for (size_t i = 0; i < x.size(); ++i) {
    float most = 0;
    for (size_t j = i / 61 * 61; j < i / 61 * 61 + 61; ++j) {
      most = std::max(most, std::abs(x[j]));
    }
    const float factor = 127 / most;
    const float scaled = x[i] * factor;
    EXPECT_EQ(whole[i], static_cast<int>(std::nearbyint(scaled))) << i;
    EXPECT_EQ(scales[i / 61], most / 127);
    EXPECT_EQ(back[i], scales[i / 61] * static_cast<float>(whole[i]));
  }
}

TEST(WireBytesTest, AreThoseOfTheFormat) {
  EXPECT_EQ(WireBytes(WireFormat::kFp32, 3, 5), 60);
  EXPECT_EQ(WireBytes(WireFormat::kBf16, 3, 5), 30);
  EXPECT_EQ(WireBytes(WireFormat::kInt8, 3, 5), 27);
}

// The functions put the pieces where WireBytes says.
TEST(WireBytesTest, NothingIsWrittenBeyond) {
  constexpr int64_t kRows = 3, kCols = 7;
  const std::vector<float> x = RandomValues<float>(kRows * kCols, "z");
  for (const WireFormat format :
       {WireFormat::kFp32, WireFormat::kBf16, WireFormat::kInt8}) {
    const auto bytes = static_cast<size_t>(WireBytes(format, kRows, kCols));
    alignas(4) std::byte wire[128];
    std::memset(wire, 0x5a, sizeof wire);
    EncodeWire(format, kRows, kCols, x.data(), wire);
    for (size_t i = bytes; i < sizeof wire; ++i) {
      ASSERT_EQ(wire[i], std::byte{0x5a}) << i;
    }
    std::vector<float> back(x.size());
    DecodeWire(format, kRows, kCols, wire, back.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 0.03);
  }
}

}  // namespace
}  // namespace gimbal::compute

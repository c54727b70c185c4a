#include "worker/compute/aligned_buffer.h"

#include <gtest/gtest.h>

#include <utility>

namespace gimbal::compute {
namespace {

bool IsAligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % kCacheLine == 0;
}

TEST(AlignedBufferTest, IsZeroedAlignedAndRoundedUp) {
  AlignedBuffer<float> buffer(17);
  EXPECT_TRUE(IsAligned(buffer.data()));
  EXPECT_EQ(buffer.size(), 17);
  EXPECT_EQ(buffer.bytes(), 128);
  for (int i = 0; i < 17; ++i) EXPECT_EQ(buffer.data()[i], 0.0f);
}

TEST(AlignedBufferTest, LargeBuffersStartOnAHugePage) {
  AlignedBuffer<float> buffer(3 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (2 << 20), 0u);
  EXPECT_EQ(buffer.bytes(), 12 << 20);
  EXPECT_EQ(buffer.data()[0], 0.0f);
  EXPECT_EQ(buffer.data()[(3 << 20) - 1], 0.0f);
}

TEST(AlignedBufferTest, EmptyHoldsNothing) {
  AlignedBuffer<int32_t> buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.bytes(), 0);
}

TEST(CarverTest, CountsWhatItWouldTake) {
  Carver<double> counter(nullptr);
  EXPECT_EQ(counter.Take(3), nullptr);
  EXPECT_EQ(counter.Take(9), nullptr);
  EXPECT_EQ(counter.used(), 24);

  AlignedBuffer<double> buffer(counter.used());
  Carver<double> carver(buffer.data());
  EXPECT_EQ(carver.Take(3), buffer.data());
  EXPECT_EQ(carver.Take(9), buffer.data() + 8);
  EXPECT_TRUE(IsAligned(buffer.data() + 8));
}

}  // namespace
}  // namespace gimbal::compute

#include "worker/pipeline/weight_stash.h"

#include <gtest/gtest.h>

#include "worker/compute/aligned_buffer.h"

namespace gimbal::worker {
namespace {

TEST(WeightStash, KeepsTheNewestVersions) {
  compute::AlignedBuffer<float> memory(WeightStash::Size(5, 3));
  WeightStash stash(memory.data(), 5, 3);
  for (int64_t version = 0; version < 10; ++version) {
    stash.SlotFor(version)[4] = static_cast<float>(version);
    stash.Publish(version);
    EXPECT_EQ(stash.newest(), version);
    EXPECT_EQ(stash.oldest(), std::max<int64_t>(0, version - 2));
    for (int64_t old = stash.oldest(); old <= version; ++old) {
      EXPECT_EQ(stash.Get(old)[4], static_cast<float>(old));
    }
    EXPECT_FALSE(stash.Has(version - 3));
    EXPECT_FALSE(stash.Has(version + 1));
  }
}

TEST(WeightStash, OneVersionIsUpdatedInPlace) {
  compute::AlignedBuffer<float> memory(WeightStash::Size(7, 1));
  WeightStash stash(memory.data(), 7, 1);
  stash.Publish(0);
  EXPECT_EQ(stash.SlotFor(1), stash.Get(0));
  stash.Publish(1);
  EXPECT_FALSE(stash.Has(0));
}

TEST(WeightStash, ArenasAreAlignedAndCounted) {
  compute::AlignedBuffer<float> memory(WeightStash::Size(17, 4));
  WeightStash stash(memory.data(), 17, 4);
  for (int64_t version = 0; version < 4; ++version) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(stash.SlotFor(version)) % 64, 0u);
    stash.Publish(version);
  }
  EXPECT_EQ(stash.bytes(), 4 * 32 * 4);
}

TEST(WeightStashDeathTest, AVersionThatIsGoneIsNeverReturned) {
  compute::AlignedBuffer<float> memory(WeightStash::Size(4, 2));
  WeightStash stash(memory.data(), 4, 2);
  for (int64_t version = 0; version < 3; ++version) stash.Publish(version);
  EXPECT_DEATH(stash.Get(0), "Has\\(version\\)");
}

}  // namespace
}  // namespace gimbal::worker

#include "common/base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace gimbal::base {
namespace {

using testing::ElementsAre;

// Known answers of the Random123 test suite; its counter words 0, 1 are our
// counter, words 2, 3 our stream, and its key is our seed.
TEST(PhiloxTest, MatchesTheKnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(UINT64_MAX, UINT64_MAX, UINT64_MAX),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(StreamOfTest, IsFnv1a) {
  EXPECT_EQ(StreamOf(""), 0xcbf29ce484222325);
  EXPECT_EQ(StreamOf("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(StreamOf("foobar"), 0x85944171f73967e8);
}

TEST(RandomNormalTest, HasTheMomentsOfTheStandardNormal) {
  constexpr int kCount = 200000;
  double moments[5] = {};
  double neighbours = 0.0;
  double previous = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double x = RandomNormal(1337, 7, i);
    ASSERT_TRUE(std::isfinite(x));
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / kCount;
    neighbours += x * previous / kCount;
    previous = x;
  }
  // Five standard deviations of each estimate: sqrt(Var(x^k) / kCount).
  const double root = std::sqrt(kCount);
  EXPECT_NEAR(moments[1], 0.0, 5.0 / root);
  EXPECT_NEAR(moments[2], 1.0, 5.0 * std::sqrt(2.0) / root);
  EXPECT_NEAR(moments[3], 0.0, 5.0 * std::sqrt(15.0) / root);
  EXPECT_NEAR(moments[4], 3.0, 5.0 * std::sqrt(96.0) / root);
  EXPECT_NEAR(neighbours, 0.0, 5.0 / root);
}

TEST(RandomNormalTest, DependsOnSeedStreamAndIndexAlone) {
  const double x = RandomNormal(1, 2, 3);
  EXPECT_EQ(x, RandomNormal(1, 2, 3));
  EXPECT_NE(x, RandomNormal(2, 2, 3));
  EXPECT_NE(x, RandomNormal(1, 3, 3));
  EXPECT_NE(x, RandomNormal(1, 2, 2));
}

TEST(RandomPermutationTest, IsABijectionForEverySize) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (const uint64_t size : {1023, 1024, 1025, 4095, 4096, 4097, 65537}) {
    sizes.push_back(size);
  }
  for (const uint64_t size : sizes) {
    std::vector<bool> seen(size, false);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t image = RandomPermutation(42, 5, size, i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(seen[image]) << "size " << size << ", index " << i;
      seen[image] = true;
    }
  }
}

TEST(RandomPermutationTest, WorksAboveFourBillion) {
  const uint64_t size = (uint64_t{1} << 40) + 3;
  std::set<uint64_t> images;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t image = RandomPermutation(42, 5, size, size - 1 - i);
    ASSERT_LT(image, size);
    images.insert(image);
  }
  EXPECT_EQ(images.size(), 1000);
}

TEST(RandomPermutationTest, LooksRandomAndDiffersByStream) {
  constexpr uint64_t kSize = 10000;
  int fixed_points = 0;
  int same_as_other_stream = 0;
  double product = 0.0;
  const double mean = (kSize - 1) / 2.0;
  for (uint64_t i = 0; i < kSize; ++i) {
    const uint64_t image = RandomPermutation(42, 5, kSize, i);
    fixed_points += image == i;
    same_as_other_stream += image == RandomPermutation(42, 6, kSize, i);
    product +=
        (static_cast<double>(i) - mean) * (static_cast<double>(image) - mean);
  }
  EXPECT_LT(fixed_points, 10);
  EXPECT_LT(same_as_other_stream, 10);
  const double variance = (double{kSize} * kSize - 1.0) / 12.0;
  EXPECT_LT(std::abs(product / kSize / variance), 0.05);
}

}  // namespace
}  // namespace gimbal::base

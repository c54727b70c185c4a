#include "coordinator/cli/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"

namespace gimbal::cli {
namespace {

TEST(SamplingTest, TemperatureZeroTakesTheLikeliestLowestId) {
  const float logits[] = {1, 3, 3, 2};
  EXPECT_EQ(SampleToken(logits, {.temperature = 0}, ~uint64_t{0}), 1);
}

TEST(SamplingTest, TopKLeavesTheRestOut) {
  const float logits[] = {0, 5, 4, 3};
  for (uint64_t i = 0; i < 1000; ++i) {
    const int token = SampleToken(logits, {.temperature = 100, .top_k = 2},
                                  base::RandomBits(1, 2, i));
    EXPECT_TRUE(token == 1 || token == 2);
  }
}

TEST(SamplingTest, FrequenciesAreTheSoftmax) {
  const float logits[] = {0, 1, 2};
  std::vector<int> counts(3, 0);
  constexpr int kDraws = 20000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    ++counts[SampleToken(logits, {.temperature = 2, .top_k = 0},
                         base::RandomBits(1, 2, i))];
  }
  const double sum = 1 + std::exp(0.5) + std::exp(1);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(counts[k] / double{kDraws}, std::exp(0.5 * k) / sum, 0.015);
  }
}

TEST(SamplingTest, EndsOfTheRandomRangeAreInside) {
  const float logits[] = {0, 0, 0};
  EXPECT_EQ(SampleToken(logits, {.temperature = 1}, 0), 0);
  EXPECT_EQ(SampleToken(logits, {.temperature = 1}, ~uint64_t{0}), 2);
}

}  // namespace
}  // namespace gimbal::cli

#include "worker/compute/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace gimbal::compute {
namespace {

TEST(VectorMathTest, ExpIsAccurateOverTheNormalRange) {
  for (float x = -87.0f; x < 88.0f; x += 0.0137f) {
    const double want = std::exp(static_cast<double>(x));
    ASSERT_NEAR(Exp(x), want, 2e-7 * want) << x;
  }
  EXPECT_EQ(Exp(0.0f), 1.0f);
}

TEST(VectorMathTest, ExpAtTheEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_LT(Exp(-inf), 2e-38f);
  EXPECT_GE(Exp(-inf), std::numeric_limits<float>::min());
  EXPECT_GT(Exp(inf), 2e38f);
  EXPECT_TRUE(std::isfinite(Exp(inf)));
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
  EXPECT_TRUE(std::isnan(Exp(-std::nanf(""))));
}

TEST(VectorMathTest, NormalCdfIsAccurateInBothTails) {
  for (float x = -9.0f; x < 9.0f; x += 0.0031f) {
    const float density = static_cast<float>(
        std::exp(-0.5 * static_cast<double>(x) * static_cast<double>(x)));
    const double want = 0.5 * std::erfc(-static_cast<double>(x) / M_SQRT2);
    ASSERT_NEAR(NormalCdf(x, density), want, 4e-7 * want) << x;
  }
  EXPECT_EQ(NormalCdf(1e4f, 0.0f), 1.0f);
  EXPECT_EQ(NormalCdf(-1e4f, 0.0f), 0.0f);
}

TEST(VectorMathTest, SumAndMaxCoverEveryElement) {
  for (const int64_t n : {1, 31, 32, 33, 64, 95, 1000}) {
    std::vector<float> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = i - 2000.0f;
    EXPECT_EQ(Sum<float>(n, [&](int64_t i) { return x[i]; }),
              n * (n - 1) / 2 - 2000 * n);
    EXPECT_EQ(Max(n, x.data()), n - 2001.0f);
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      x[static_cast<size_t>(at)] += 5000.0f;
      EXPECT_EQ(Max(n, x.data()), at + 3000.0f);
      x[static_cast<size_t>(at)] -= 5000.0f;
    }
  }
}

// In the order in which it is taken one by one: bits do not depend on it.
TEST(VectorMathTest, WhatIsReadableBeyondTheEndHasNoEffect) {
  std::vector<float> x(128);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 1.0f / static_cast<float>(i + 3);
  }
  for (int64_t n = 1; n <= 96; ++n) {
    std::vector<float> filled = x;
    for (size_t i = static_cast<size_t>(n); i < x.size(); ++i) {
      filled[i] = i % 2 == 0 ? 1e30f : std::nanf("");
    }
    const auto at = [&](int64_t i) { return x[static_cast<size_t>(i)]; };
    const auto of_filled = [&](int64_t i) {
      return filled[static_cast<size_t>(i)];
    };
    ASSERT_EQ(Sum<float>(n, 128, of_filled), Sum<float>(n, at)) << n;
    ASSERT_EQ(Max<float>(n, 128, filled.data()), Max<float>(n, x.data())) << n;
  }
}

}  // namespace
}  // namespace gimbal::compute

#include "worker/optim/refresh.h"

#include <gtest/gtest.h>

#include <vector>

namespace gimbal::worker {
namespace {

std::vector<int> Due(int period, int updates) {
  std::vector<int> due;
  for (int t = 1; t <= updates; ++t) {
    if (RefreshDue(t, period)) due.push_back(t);
  }
  return due;
}

TEST(RefreshDue, ColdStartAndMultiplesOfThePeriod) {
  EXPECT_EQ(Due(10, 30), (std::vector<int>{1, 10, 20, 30}));
  EXPECT_EQ(Due(1, 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(Due(100, 99), (std::vector<int>{1}));
}

}  // namespace
}  // namespace gimbal::worker

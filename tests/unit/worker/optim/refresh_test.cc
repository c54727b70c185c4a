#include "worker/optim/refresh.h"

#include <gtest/gtest.h>

#include <vector>

namespace gimbal::worker {
namespace {

std::vector<int> Due(const std::vector<RefreshRule>& rules, int updates) {
  std::vector<int> due;
  for (int t = 1; t <= updates; ++t) {
    if (RefreshDue(rules, t)) due.push_back(t);
  }
  return due;
}

std::vector<int> Due(double period, int updates) {
  return Due(std::vector<RefreshRule>{{1, period}}, updates);
}

TEST(RefreshDue, ColdStartAndMultiplesOfThePeriod) {
  EXPECT_EQ(Due(10, 30), (std::vector<int>{1, 10, 20, 30}));
  EXPECT_EQ(Due(1, 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(Due(100, 99), (std::vector<int>{1}));
}

TEST(RefreshDue, FractionsSpendTheBudgetExactly) {
  EXPECT_EQ(Due(2.5, 15), (std::vector<int>{1, 3, 5, 8, 10, 13, 15}));
  EXPECT_EQ(Due(1.6, 1000).size(), 1 + 625u);
}

TEST(RefreshDue, TheLastRuleThatHasComeHolds) {
  const std::vector<RefreshRule> rules = {{1, 10}, {25, 5}, {41, 20}};
  EXPECT_EQ(Due(rules, 80),
            (std::vector<int>{1, 10, 20, 25, 30, 35, 40, 60, 80}));
}

TEST(RefreshesDone, CountsWhatTheRulesSay) {
  const std::vector<std::vector<RefreshRule>> plans = {
      {{1, 1}},   {{1, 2}},           {{1, 7}},
      {{1, 2.5}}, {{1, 10}, {25, 5}}, {{1, 1}, {3, 4.2}, {30, 1}}};
  for (const auto& rules : plans) {
    EXPECT_EQ(RefreshesDone(rules, 0), 0);
    int64_t expected = 0;
    for (int64_t update = 1; update <= 60; ++update) {
      expected += RefreshDue(rules, update) ? 1 : 0;
      EXPECT_EQ(RefreshesDone(rules, update), expected) << "update " << update;
    }
  }
}

}  // namespace
}  // namespace gimbal::worker

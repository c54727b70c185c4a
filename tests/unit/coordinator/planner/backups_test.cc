#include "coordinator/planner/backups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::map<int64_t, std::string> OnOneMachine(const std::vector<int64_t>& slots) {
  std::map<int64_t, std::string> machines;
  for (const int64_t worker : slots) machines[worker] = "a";
  return machines;
}

TEST(BackupsOf, AWorkerAloneHasNone) {
  EXPECT_THAT(BackupsOf({}, {}), IsEmpty());
  EXPECT_THAT(BackupsOf({7, 7}, OnOneMachine({7})),
              UnorderedElementsAre(Pair(7, 0)));
}

TEST(BackupsOf, TwoHaveEachOther) {
  EXPECT_THAT(BackupsOf({7, 9, 9}, OnOneMachine({7, 9})),
              UnorderedElementsAre(Pair(7, 9), Pair(9, 7)));
}

TEST(BackupsOf, NeighboursCanBeLostTogether) {
  for (int64_t count = 4; count <= 12; ++count) {
    std::vector<int64_t> slots;
    for (int64_t i = 1; i <= count; ++i) slots.push_back(i);
    const auto backups = BackupsOf(slots, OnOneMachine(slots));
    std::map<int64_t, int> kept;  // by backup
    for (int64_t i = 1; i <= count; ++i) {
      const int64_t backup = backups.at(i);
      EXPECT_GT(std::abs(backup - i), 1) << i << " of " << count;
      ++kept[backup];
    }
    EXPECT_EQ(kept.size(), static_cast<size_t>(count));
  }
}

TEST(BackupsOf, AnotherMachineComesFirst) {
  EXPECT_THAT(
      BackupsOf({1, 2, 3, 4}, {{1, "a"}, {2, "b"}, {3, "a"}, {4, "b"}}),
      UnorderedElementsAre(Pair(1, 4), Pair(2, 1), Pair(3, 2), Pair(4, 3)));
}

}  // namespace
}  // namespace gimbal::coordinator

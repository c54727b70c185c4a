#include "worker/checkpoint/snapshot_store.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::shared_ptr<const StageSnapshot> Snapshot(int64_t update) {
  return std::make_shared<StageSnapshot>(
      *StageSnapshot::WithTensors(update, {{"file", "name", {3}}}));
}

class SnapshotStoreTest : public ::testing::Test {
 protected:
  absl::Status Put(int64_t generation, int stage, int64_t update) {
    return store_.Put("run", generation, stage, Snapshot(update));
  }

  SnapshotStore store_;
};

TEST_F(SnapshotStoreTest, TakesNothingBeforeAnAssignment) {
  EXPECT_THAT(Put(1, 0, 10), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("run")));
  store_.Begin("run", 1, 1, 0);
  EXPECT_THAT(Put(1, 0, 10), IsOk());
  EXPECT_THAT(
      store_.Put("other", 1, 0, Snapshot(10)),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("run")));
}

TEST_F(SnapshotStoreTest, FindsWhatWasPutAndForgetsWhatIsOld) {
  store_.Begin("run", 1, 1, 0);
  for (const int64_t update : {10, 20, 30}) {
    EXPECT_THAT(Put(1, 0, update), IsOk());
    EXPECT_THAT(Put(1, 2, update), IsOk());
  }
  EXPECT_EQ(store_.bytes(), 6 * 3 * 4);
  ASSERT_NE(store_.Find("run", 2, 20), nullptr);
  EXPECT_EQ(store_.Find("run", 2, 20)->update(), 20);
  EXPECT_EQ(store_.Find("run", 1, 20), nullptr);
  EXPECT_EQ(store_.Find("other", 2, 20), nullptr);
  store_.DropBefore(20);
  store_.Drop(2, 20);
  EXPECT_THAT(store_.Keys(),
              ElementsAre(Pair(0, 20), Pair(0, 30), Pair(2, 30)));
  store_.DropAt(30);
  EXPECT_THAT(store_.Keys(), ElementsAre(Pair(0, 20)));
}

TEST_F(SnapshotStoreTest, OutlivesAssignmentsOfTheRun) {
  store_.Begin("run", 1, 1, 0);
  EXPECT_THAT(Put(1, 0, 10), IsOk());
  EXPECT_THAT(Put(1, 0, 20), IsOk());
  store_.Begin("run", 2, 1, 10);  // a stage is replayed
  EXPECT_THAT(store_.Keys(), ElementsAre(Pair(0, 10), Pair(0, 20)));
  store_.Begin("another", 2, 2, 0);
  EXPECT_THAT(store_.Keys(), IsEmpty());
}

// What was computed beyond the cut may be decided otherwise now.
TEST_F(SnapshotStoreTest, GoingBackForgetsAndRefusesWhatCameLater) {
  store_.Begin("run", 1, 1, 0);
  EXPECT_THAT(Put(1, 0, 10), IsOk());
  EXPECT_THAT(Put(1, 0, 20), IsOk());
  store_.Begin("run", 3, 3, 10);
  EXPECT_THAT(store_.Keys(), ElementsAre(Pair(0, 10)));
  EXPECT_THAT(Put(2, 0, 20), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("generation 2")));
  EXPECT_THAT(store_.Admits("run", 3), IsOk());
  EXPECT_THAT(Put(3, 0, 20), IsOk());
}

TEST_F(SnapshotStoreTest, AWorkerThatLostItsStagesKnowsNothing) {
  store_.Begin("run", 1, 1, 0);
  EXPECT_THAT(Put(1, 0, 10), IsOk());
  store_.Renew();
  store_.Confirm(2);  // it keeps its stages, those of others began
  store_.Begin("run", 3, 2, 5);
  EXPECT_THAT(store_.Keys(), ElementsAre(Pair(0, 10)));
  store_.Renew();
  store_.Begin("run", 4, 2, 10);
  EXPECT_THAT(store_.Keys(), IsEmpty());
}

}  // namespace
}  // namespace gimbal::worker

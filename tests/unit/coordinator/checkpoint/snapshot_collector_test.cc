#include "coordinator/checkpoint/snapshot_collector.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::StatusIs;
using ::testing::HasSubstr;

v1::SnapshotWritten Snapshot(int64_t update, int stage,
                             const std::string& path) {
  v1::SnapshotWritten snapshot;
  snapshot.set_update(update);
  snapshot.set_stage(stage);
  snapshot.set_seconds(stage + 1.0);
  snapshot.add_files()->set_path(path);
  return snapshot;
}

TEST(SnapshotCollector, IsWholeWithTheLastStage) {
  SnapshotCollector collector(2);
  ASSERT_OK_AND_ASSIGN(auto content, collector.Add(Snapshot(5, 1, "b")));
  EXPECT_FALSE(content.has_value());
  ASSERT_OK_AND_ASSIGN(content, collector.Add(Snapshot(7, 1, "b")));
  EXPECT_FALSE(content.has_value());
  ASSERT_OK_AND_ASSIGN(content, collector.Add(Snapshot(5, 0, "a")));
  ASSERT_TRUE(content.has_value());
  EXPECT_EQ(content->update, 5);
  EXPECT_EQ(content->seconds, 2.0);
  ASSERT_EQ(content->files.size(), 2u);
  EXPECT_EQ(content->files[0].path(), "a");
  EXPECT_EQ(content->files[1].path(), "b");
}

TEST(SnapshotCollector, GivesUpOnceWhenAStageCannotWrite) {
  SnapshotCollector collector(3);
  v1::SnapshotWritten failed;
  failed.set_update(5);
  failed.set_stage(1);
  failed.set_error("disk full");
  EXPECT_THAT(collector.Add(failed),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("stage 1 at update 5: disk full")));
  failed.set_stage(2);
  ASSERT_OK_AND_ASSIGN(auto content, collector.Add(failed));
  EXPECT_FALSE(content.has_value());
  ASSERT_OK_AND_ASSIGN(content, collector.Add(Snapshot(5, 0, "a")));
  EXPECT_FALSE(content.has_value());
}

TEST(SnapshotCollector, ForgetsOnRestart) {
  SnapshotCollector collector(2);
  ASSERT_OK_AND_ASSIGN(auto content, collector.Add(Snapshot(5, 1, "b")));
  collector.Restart();
  ASSERT_OK_AND_ASSIGN(content, collector.Add(Snapshot(5, 0, "a")));
  EXPECT_FALSE(content.has_value());
}

TEST(SnapshotCollector, RefusesWhatCannotBe) {
  SnapshotCollector collector(2);
  EXPECT_THAT(collector.Add(Snapshot(5, 2, "a")),
              StatusIs(absl::StatusCode::kInternal));
  ASSERT_OK_AND_ASSIGN(auto content, collector.Add(Snapshot(5, 0, "a")));
  EXPECT_THAT(collector.Add(Snapshot(5, 1, "a")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("two stages")));
}

}  // namespace
}  // namespace gimbal::coordinator

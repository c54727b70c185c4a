#include "common/config/suggestion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(EditDistanceTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("setps", "steps"), 1) << "swapped neighbours";
  EXPECT_EQ(EditDistance("lr", "lrr"), 1);
}

TEST(SuggestKeyTest, FindsTheNearestKeyOfTheSection) {
  EXPECT_EQ(SuggestKey("optimizer.lrr"), "did you mean optimizer.lr?");
  EXPECT_EQ(SuggestKey("run.setps"), "did you mean run.steps?");
  EXPECT_EQ(SuggestKey("optimizer.weight-decay"),
            "did you mean optimizer.weight_decay?");
  EXPECT_EQ(SuggestKey("optimiser"), "did you mean optimizer?");
  EXPECT_EQ(SuggestKey("optimizer.schedule.warmpu"),
            "did you mean optimizer.schedule.warmup?");
}

TEST(SuggestKeyTest, PointsToTheRightSection) {
  EXPECT_EQ(SuggestKey("steps"),
            "this key stands elsewhere; did you mean run.steps?");
  EXPECT_EQ(SuggestKey("model.every"),
            "this key stands elsewhere; did you mean "
            "staleness.periodic_sync.every or checkpoint.every or "
            "eval.every or trace.every?");
  EXPECT_EQ(SuggestKey("optim.lr"),
            "this key stands elsewhere; did you mean optimizer.lr?");
  EXPECT_EQ(SuggestKey("run.stage"), "did you mean pipeline.stages?");
}

TEST(SuggestKeyTest, ListsTheKeysOtherwise) {
  EXPECT_EQ(SuggestKey("batch.zzzzzz"),
            "expected one of microbatch, accumulate");
  EXPECT_THAT(SuggestKey("qqqq.zzzzzz"),
              AllOf(HasSubstr("expected one of run, data, model")));
  EXPECT_EQ(SuggestKey("batch"),
            "this is a section, its keys are batch.microbatch, "
            "batch.accumulate");
}

}  // namespace
}  // namespace gimbal::config

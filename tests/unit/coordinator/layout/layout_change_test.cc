#include "coordinator/layout/layout_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/run_config_io.h"
#include "coordinator/planner/placement.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/layout/trained_folder.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;

// For so few blocks `auto` is [3,1]: the head is as much work as they are.
TEST(Continue, TheSameStagesKeepTheLayoutThatIsHeld) {
  const auto held = TrainedConfig(
      2, {"pipeline.split=[3,1]", "pipeline.origin=20", "checkpoint.every=5"});
  const auto wanted = TrainedConfig(2, {"checkpoint.every=7"});
  ASSERT_OK_AND_ASSIGN(const Continuation next, Continue(wanted, held));
  EXPECT_FALSE(next.other_stages);
  EXPECT_EQ(config::ConfigDigest(next.config), config::ConfigDigest(held));
  EXPECT_EQ(next.config.pipeline().origin(), 20);
  EXPECT_EQ(next.config.checkpoint().every(), 7) << "changes no number";
}

TEST(Continue, OtherStagesAreTold) {
  const auto held = TrainedConfig(4);
  for (const auto& wanted :
       {TrainedConfig(2), TrainedConfig(2, {"pipeline.split=[2,2]"})}) {
    ASSERT_OK_AND_ASSIGN(const Continuation next, Continue(wanted, held));
    EXPECT_TRUE(next.other_stages);
    EXPECT_EQ(config::ToYaml(next.config), config::ToYaml(wanted));
  }
  const auto two_two = TrainedConfig(2, {"pipeline.split=[2,2]"});
  ASSERT_OK_AND_ASSIGN(const Continuation next,
                       Continue(TrainedConfig(2), two_two));
  EXPECT_TRUE(next.other_stages) << "the same number, but another split";
}

TEST(Continue, AnythingElseIsAnotherRun) {
  EXPECT_THAT(
      Continue(TrainedConfig(2, {"optimizer.lr=0.5"}), TrainedConfig(4)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("optimizer.lr")));
}

TEST(ReplanRefreshes, KeepsWhatAUserAskedForAndPlansItForTheNewStages) {
  const auto config = TrainedConfig(2);
  ASSERT_OK_AND_ASSIGN(const auto stages, PlanStages(config));
  const RefreshChange uniform{.from = 9,
                              .policy = v1::REFRESH_POLICY_UNIFORM,
                              .period = 7,
                              .periods = {7, 7, 7, 7},
                              .asked = true};
  RefreshChange aware = uniform;
  aware.from = 15;
  aware.policy = v1::REFRESH_POLICY_STAGE_AWARE;
  RefreshChange adaptive = uniform;
  adaptive.asked = false;
  const auto planned =
      ReplanRefreshes(config, stages, {uniform, adaptive, aware});
  ASSERT_EQ(planned.size(), 2u);
  EXPECT_EQ(planned[0].from, 9);
  EXPECT_THAT(planned[0].periods, ElementsAre(7, 7));
  EXPECT_EQ(planned[1].from, 15);
  EXPECT_TRUE(planned[1].asked);
  EXPECT_THAT(planned[1].periods, ElementsAre(Ge(1), Ge(7)))
      << "the stage with a delay refreshes more often";
}

TEST(GoingOver, IsSaidInWords) {
  ASSERT_OK_AND_ASSIGN(const auto two, PlanStages(TrainedConfig(2)));
  ASSERT_OK_AND_ASSIGN(const auto four, PlanStages(TrainedConfig(4)));
  const GoingOver words = Describe(20, two, four);
  EXPECT_EQ(words.what, "2 stages from update 21 on, before 4");
  EXPECT_THAT(words.blocks, HasSubstr("before 1, 1, 1, 1"));
}

}  // namespace
}  // namespace gimbal::coordinator

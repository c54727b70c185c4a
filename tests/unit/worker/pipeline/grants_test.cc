#include "worker/pipeline/grants.h"

#include <gtest/gtest.h>

namespace gimbal::worker {
namespace {

TEST(Grants, NothingRunsBeforeTheFirst) {
  Grants grants;
  EXPECT_FALSE(grants.Find(0, 1).has_value());
  EXPECT_FALSE(grants.final_update().has_value());
}

TEST(Grants, ExtendAndCarryTheirCuts) {
  Grants grants;
  grants.Add({.until = 5, .final_update = 100, .cuts = {{3, {true, false}}}});
  EXPECT_TRUE(grants.Find(0, 3)->cut.evaluate);
  EXPECT_FALSE(grants.Find(0, 5)->cut.evaluate);
  EXPECT_FALSE(grants.Find(0, 6).has_value());
  grants.Add({.until = 9, .final_update = 8, .cuts = {{8, {false, true}}}});
  EXPECT_TRUE(grants.Find(0, 3)->cut.evaluate);
  EXPECT_TRUE(grants.Find(0, 8)->cut.snapshot);
  EXPECT_EQ(grants.Find(0, 7)->end, 8);
  EXPECT_FALSE(grants.Find(0, 9).has_value()) << "beyond the end of the run";
}

TEST(Grants, SayWhatIsLeftOut) {
  Grants grants;
  grants.Add({.until = 5, .final_update = 100, .left_out = {{3, 3}}});
  EXPECT_TRUE(grants.Find(0, 3)->left_out);
  EXPECT_FALSE(grants.Find(0, 4)->left_out);
  grants.Add({.until = 9, .final_update = 100, .left_out = {{3, 3}, {7, 8}}});
  EXPECT_TRUE(grants.Find(1, 3)->left_out);
  EXPECT_FALSE(grants.Find(1, 6)->left_out);
  EXPECT_TRUE(grants.Find(1, 8)->left_out);
}

TEST(Grants, NeverShrink) {
  Grants grants;
  grants.Add({.until = 5, .final_update = 100});
  grants.Add({.until = 2, .final_update = 100});
  EXPECT_TRUE(grants.Find(0, 5).has_value());
}

}  // namespace
}  // namespace gimbal::worker

#include "coordinator/cli/run_follower.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::cli {
namespace {

using std::chrono::seconds;
using test_support::IsOk;
using test_support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

const base::SteadyTime kStart{seconds(1000)};

v1::GetStatusResponse At(int64_t update) {
  v1::GetStatusResponse status;
  status.set_update(update);
  status.set_steps(40);
  status.set_run_dir("/runs/a");
  return status;
}

TEST(RunFollower, TheFirstMissIsAnError) {
  RunFollower follower("host:1");
  EXPECT_THAT(follower.Take(absl::UnavailableError("nobody"), kStart),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nobody")));
}

// One late answer once ended the following.
TEST(RunFollower, LaterOnesAreMissedForAWhile) {
  RunFollower follower("host:1");
  const absl::Status miss = absl::UnavailableError("nobody");
  ASSERT_OK_AND_ASSIGN(auto status, follower.Take(At(3), kStart));
  EXPECT_EQ(status->update(), 3);
  ASSERT_OK_AND_ASSIGN(status, follower.Take(miss, kStart + seconds(4)));
  EXPECT_FALSE(status.has_value());
  ASSERT_OK_AND_ASSIGN(status, follower.Take(At(7), kStart + seconds(5)));
  EXPECT_EQ(status->update(), 7);
  EXPECT_THAT(follower.Take(miss, kStart + seconds(9)), IsOk());
  EXPECT_THAT(
      follower.Take(miss, kStart + seconds(10)),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("host:1 is gone"), HasSubstr("update 7 of 40"),
                     HasSubstr("--run-dir /runs/a --resume"))));
}

}  // namespace
}  // namespace gimbal::cli

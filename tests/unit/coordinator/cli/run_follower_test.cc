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

const absl::Status kHangs = absl::DeadlineExceededError("silent");
const absl::Status kRefused = absl::UnavailableError("nobody");
constexpr double kMidnight = 86400 * 20000;

TEST(RunFollower, ARefusalOfTheFirstAskIsAnErrorSilenceIsNot) {
  RunFollower follower("host:1", std::nullopt, kStart);
  EXPECT_THAT(follower.Take(kRefused, kStart, kMidnight),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nobody")));
  ASSERT_OK_AND_ASSIGN(
      Followed seen, follower.Take(kHangs, kStart + seconds(5), kMidnight + 5));
  EXPECT_FALSE(seen.status.has_value());
  EXPECT_EQ(seen.silence,
            "no answer from the coordinator since 00:00:00 UTC, for 5.0 s");
  ASSERT_OK_AND_ASSIGN(
      seen, follower.Take(At(3), kStart + seconds(6), kMidnight + 6));
  EXPECT_TRUE(seen.answered);
  EXPECT_EQ(seen.silence, "");
}

// A watch once gave up on a coordinator that hung for five seconds.
TEST(RunFollower, GoesOnAndShowsWhatWasBeforeUntilThereIsAnAnswer) {
  RunFollower follower("host:1", std::nullopt, kStart);
  ASSERT_OK_AND_ASSIGN(Followed seen, follower.Take(At(3), kStart, kMidnight));
  EXPECT_TRUE(seen.answered);
  // One late answer is nothing to speak of.
  ASSERT_OK_AND_ASSIGN(
      seen, follower.Take(kHangs, kStart + seconds(1), kMidnight + 1));
  EXPECT_FALSE(seen.answered);
  EXPECT_EQ(seen.silence + seen.note, "");
  EXPECT_EQ(seen.status->update(), 3);

  ASSERT_OK_AND_ASSIGN(
      seen, follower.Take(kHangs, kStart + seconds(2), kMidnight + 2));
  EXPECT_THAT(seen.note, HasSubstr("host:1 has not answered since 00:00:00"));
  const int hour = 3600;
  ASSERT_OK_AND_ASSIGN(
      seen, follower.Take(kRefused, kStart + seconds(hour), kMidnight + hour));
  EXPECT_EQ(seen.note, "");
  EXPECT_THAT(seen.silence,
              AllOf(HasSubstr("since 00:00:00 UTC, for 1 h 00 m")));
  EXPECT_EQ(seen.status->update(), 3);
  ASSERT_OK_AND_ASSIGN(seen, follower.Take(At(7), kStart + seconds(hour + 2),
                                           kMidnight + hour + 2));
  EXPECT_EQ(seen.status->update(), 7);
  EXPECT_EQ(seen.silence, "");
  EXPECT_EQ(seen.note,
            "the coordinator at host:1 answers again, after 1 h 00 m");
}

// Whoever wants the run's exit code must not wait for it for ever.
TEST(RunFollower, PatienceEnds) {
  RunFollower follower("host:1", seconds(60), kStart);
  EXPECT_THAT(follower.Take(At(7), kStart, kMidnight), IsOk());
  EXPECT_THAT(follower.Take(kRefused, kStart + seconds(60), kMidnight), IsOk());
  EXPECT_THAT(follower.Take(kRefused, kStart + seconds(61), kMidnight),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("host:1 has not answered for 1 m"),
                             HasSubstr("update 7 of 40"),
                             HasSubstr("--run-dir /runs/a --resume"))));
}

}  // namespace
}  // namespace gimbal::cli

#include "coordinator/run/guards.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

v1::RunConfig Config(v1::GuardPolicy nan, v1::GuardPolicy spike, double z) {
  v1::RunConfig config;
  config.mutable_guards()->set_nan(nan);
  config.mutable_guards()->set_loss_spike(spike);
  config.mutable_guards()->set_loss_spike_z(z);
  config.mutable_guards()->set_loss_spike_window(10);
  config.mutable_guards()->set_budget(3);
  config.mutable_guards()->set_rollback_updates(20);
  return config;
}

MetricsRow Row(int64_t step, double loss) {
  MetricsRow row{.step = step, .loss = loss};
  if (!std::isfinite(loss)) row.not_finite = "the loss is nan";
  return row;
}

// Losses with a mean of 2 and a standard deviation of 0.1.
double Usual(int64_t step) { return step % 2 == 0 ? 2.1 : 1.9; }

void LookAtUsual(Guards& guards, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    MetricsRow row = Row(step, Usual(step));
    const auto verdict = guards.Look(&row);
    ASSERT_THAT(verdict, IsOk());
    EXPECT_FALSE(verdict->has_value()) << step;
    EXPECT_EQ(row.left_out, "");
  }
}

TEST(Guards, StopSaysWhatAndWhere) {
  Guards guards(Config(v1::GUARD_POLICY_STOP, v1::GUARD_POLICY_SKIP, 0));
  LookAtUsual(guards, 1, 6);
  MetricsRow row = Row(7, kNan);
  EXPECT_THAT(guards.Look(&row),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("update 7: the loss is nan")));
}

TEST(Guards, NothingBeforeTheOriginIsLeftOut) {
  v1::RunConfig config =
      Config(v1::GUARD_POLICY_ROLLBACK, v1::GUARD_POLICY_SKIP, 0);
  config.mutable_pipeline()->set_origin(30);
  Guards guards(config);
  LookAtUsual(guards, 31, 36);
  MetricsRow row = Row(37, kNan);
  ASSERT_OK_AND_ASSIGN(const auto verdict, guards.Look(&row));
  EXPECT_EQ(verdict->first, 31);
  EXPECT_EQ(verdict->last, 37);
  EXPECT_THAT(verdict->reason, HasSubstr("no further back than"));
}

TEST(Guards, SkipLeavesOutOneMinibatch) {
  Guards guards(Config(v1::GUARD_POLICY_SKIP, v1::GUARD_POLICY_SKIP, 0));
  LookAtUsual(guards, 1, 6);
  MetricsRow row = Row(7, kNan);
  const auto verdict = guards.Look(&row);
  ASSERT_THAT(verdict, IsOk());
  ASSERT_TRUE(verdict->has_value());
  EXPECT_EQ((*verdict)->first, 7);
  EXPECT_EQ((*verdict)->last, 7);
  EXPECT_EQ((*verdict)->kind, "nan");
  // Made again, it is marked and passes.
  const auto again = guards.Look(&row);
  ASSERT_THAT(again, IsOk());
  EXPECT_FALSE(again->has_value());
  EXPECT_EQ(row.left_out, "nan");
}

TEST(Guards, RollbackLeavesOutThoseBeforeToo) {
  Guards guards(Config(v1::GUARD_POLICY_ROLLBACK, v1::GUARD_POLICY_SKIP, 0));
  MetricsRow early = Row(7, kNan);
  EXPECT_EQ(guards.Look(&early).value()->first, 1);
  MetricsRow row = Row(47, kNan);
  const auto verdict = guards.Look(&row);
  ASSERT_THAT(verdict, IsOk());
  EXPECT_EQ((*verdict)->first, 28);
  EXPECT_EQ((*verdict)->last, 47);
}

TEST(Guards, ASpikeIsMeasuredAgainstTheWindow) {
  Guards guards(Config(v1::GUARD_POLICY_STOP, v1::GUARD_POLICY_SKIP, 6));
  LookAtUsual(guards, 1, 10);
  MetricsRow high = Row(11, 2.59);
  EXPECT_FALSE(guards.Look(&high).value().has_value()) << "5.9 deviations";
  Guards other(Config(v1::GUARD_POLICY_STOP, v1::GUARD_POLICY_SKIP, 6));
  LookAtUsual(other, 1, 10);
  MetricsRow spike = Row(11, 2.61);
  const auto verdict = other.Look(&spike);
  ASSERT_TRUE(verdict->has_value());
  EXPECT_EQ((*verdict)->kind, "loss_spike");
  EXPECT_THAT((*verdict)->reason, HasSubstr("6.1 standard deviations"));
  // Far below is no trouble.
  MetricsRow low = Row(12, 0.5);
  EXPECT_FALSE(other.Look(&low).value().has_value());
}

TEST(Guards, NoSpikeBeforeTheWindowIsFullOrWhenNotWatched) {
  Guards guards(Config(v1::GUARD_POLICY_STOP, v1::GUARD_POLICY_SKIP, 6));
  LookAtUsual(guards, 1, 9);
  MetricsRow early = Row(10, 100);
  EXPECT_FALSE(guards.Look(&early).value().has_value());
  Guards blind(Config(v1::GUARD_POLICY_STOP, v1::GUARD_POLICY_SKIP, 0));
  LookAtUsual(blind, 1, 30);
  MetricsRow row = Row(31, 100);
  EXPECT_FALSE(blind.Look(&row).value().has_value());
}

TEST(Guards, EqualLossesMakeNoSpikeOfALastBit) {
  Guards guards(Config(v1::GUARD_POLICY_STOP, v1::GUARD_POLICY_SKIP, 6));
  for (int64_t step = 1; step <= 10; ++step) {
    MetricsRow row = Row(step, 2);
    EXPECT_FALSE(guards.Look(&row).value().has_value());
  }
  MetricsRow row = Row(11, 2.001);
  EXPECT_FALSE(guards.Look(&row).value().has_value());
}

// A later process sees the kept rows and decides as this one would have.
TEST(Guards, ARestartDecidesTheSame) {
  const v1::RunConfig config =
      Config(v1::GUARD_POLICY_SKIP, v1::GUARD_POLICY_SKIP, 6);
  std::vector<MetricsRow> rows;
  Guards straight(config);
  for (int64_t step = 1; step <= 60; ++step) {
    MetricsRow row = Row(step, step == 33 ? 9 : Usual(step) - 0.001 * step);
    while (straight.Look(&row).value().has_value()) {
    }
    rows.push_back(row);
  }
  EXPECT_EQ(rows[32].left_out, "loss_spike");
  for (int64_t cut = 0; cut < 60; ++cut) {
    Guards restarted(config);
    if (cut >= 33) restarted.Restore(straight.decisions());
    restarted.Restart({rows.begin(), rows.begin() + cut});
    for (int64_t step = cut + 1; step <= 60; ++step) {
      MetricsRow row = rows[step - 1];
      row.left_out.clear();
      const bool trips = restarted.Look(&row).value().has_value();
      EXPECT_EQ(trips, step == 33 && cut < 33) << cut << " " << step;
    }
  }
}

TEST(Guards, TheBudgetEndsTheRun) {
  Guards guards(Config(v1::GUARD_POLICY_SKIP, v1::GUARD_POLICY_SKIP, 0));
  for (int64_t step : {5, 6, 7}) {
    MetricsRow row = Row(step, kNan);
    EXPECT_TRUE(guards.Look(&row).value().has_value());
  }
  MetricsRow row = Row(8, kNan);
  EXPECT_THAT(guards.Look(&row), StatusIs(absl::StatusCode::kOutOfRange,
                                          HasSubstr("guards.budget is 3")));
}

}  // namespace
}  // namespace gimbal::coordinator

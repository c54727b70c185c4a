#include "coordinator/page/times_history.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

v1::GetStatusResponse At(double unix_seconds, double forward) {
  v1::GetStatusResponse status;
  status.set_unix_seconds(unix_seconds);
  for (int stage = 0; stage < 2; ++stage) {
    v1::StageView& view = *status.add_stages();
    view.set_stage(stage);
    if (stage == 1) view.mutable_times()->set_forward(forward);
  }
  return status;
}

TEST(TimesHistory, KeepsAMinuteOfOneSampleASecond) {
  TimesHistory history;
  for (int tick = 0; tick <= 100 * 20; ++tick) {
    history.Add(At(1e9 + tick / 20.0, tick));
  }
  const auto samples = history.samples();
  ASSERT_EQ(samples.size(), TimesHistory::kMostSamples);
  ASSERT_EQ(samples.front().stages.size(), 1u)
      << "the other has not told its times";
  EXPECT_EQ(samples.front().unix_seconds, 1e9 + 40);
  EXPECT_EQ(samples.front().stages[0].stage, 1);
  EXPECT_EQ(samples.front().stages[0].times.forward(), 40 * 20);
  EXPECT_EQ(samples.back().stages[0].times.forward(), 100 * 20);
}

TEST(TimesHistory, OutlivesAClockThatIsSetBack) {
  TimesHistory history;
  history.Add(At(1e9, 1));
  history.Add(At(1e9 - 3600, 2));
  history.Add(At(1e9 - 3599, 3));
  EXPECT_EQ(history.samples().size(), 3u);
}

TEST(TimesHistory, BeginsWithTheFirstTimes) {
  TimesHistory history;
  v1::GetStatusResponse status = At(1e9, 1);
  status.clear_stages();
  history.Add(status);
  EXPECT_EQ(history.samples().size(), 0u);
}

}  // namespace
}  // namespace gimbal::coordinator

#include "coordinator/ledger/training_rate.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

// A run of 100 tokens per update.
class Trainer {
 public:
  void Train(int updates, double seconds_per_update) {
    for (int i = 0; i < updates; ++i) {
      now_ += seconds_per_update;
      Row(false);
    }
  }
  void Row(bool evaluated) { rate.Add(now_, 100 * ++update_, evaluated); }
  void Pass(double seconds) { now_ += seconds; }

  TrainingRate rate;

 private:
  double now_ = 7;
  int64_t update_ = 0;
};

TEST(TrainingRate, IsUnknownAtFirst) {
  Trainer run;
  EXPECT_EQ(run.rate.updates_per_second(), 0);
  run.Train(1, 0.125);
  run.Train(3, 0.125);
  EXPECT_EQ(run.rate.updates_per_second(), 0) << "less than half a second";
  EXPECT_EQ(run.rate.tokens_per_second(), 0);
  EXPECT_EQ(run.rate.patience_seconds(), 3);
  run.Train(1, 0.125);
  EXPECT_EQ(run.rate.updates_per_second(), 8);
  EXPECT_EQ(run.rate.tokens_per_second(), 800);
}

TEST(TrainingRate, ForgetsWhatIsLongAgo) {
  Trainer run;
  run.Train(1000, 0.125);
  run.Train(30, 0.5);
  const double between = run.rate.updates_per_second();
  EXPECT_GT(between, 2);
  EXPECT_LT(between, 8);
  run.Train(32, 0.5);
  EXPECT_EQ(run.rate.updates_per_second(), 2);
}

// A single second once moved it by a third.
TEST(TrainingRate, IsSteadyThroughSlowAndFastSeconds) {
  Trainer run;
  run.Train(300, 0.125);
  for (int i = 0; i < 4; ++i) {
    run.Train(4, 0.25);
    EXPECT_NEAR(run.rate.updates_per_second(), 8, 0.8);
    run.Train(16, 0.0625);
    EXPECT_NEAR(run.rate.updates_per_second(), 8, 0.8);
  }
}

// After a pause of minutes the time left was once that of hours.
TEST(TrainingRate, LeavesPausesAndStandstillsOut) {
  Trainer run;
  run.Train(81, 0.125);
  run.Pass(600);
  run.rate.Interrupt();
  run.Train(1, 0.125);
  EXPECT_EQ(run.rate.updates_per_second(), 8);
  run.Train(8, 0.125);
  EXPECT_EQ(run.rate.updates_per_second(), 8);
  run.Pass(8);  // nobody said so
  run.Train(8, 0.125);
  EXPECT_EQ(run.rate.updates_per_second(), 8);
  EXPECT_EQ(run.rate.tokens_per_second(), 800);
  // A short pause is one, too.
  run.Pass(1);
  run.rate.Interrupt();
  run.Train(8, 0.125);
  EXPECT_EQ(run.rate.updates_per_second(), 8);
}

TEST(TrainingRate, AnEvaluationIsPartOfTraining) {
  Trainer run;
  for (int i = 0; i < 20; ++i) {
    run.Train(40, 0.125);
    run.Pass(5);
    run.Row(true);
  }
  EXPECT_NEAR(run.rate.updates_per_second(), 4.1, 0.5);
}

// Else the rate would stay that of better times for ever.
TEST(TrainingRate, TwoStandstillsInARowAreASlowerRun) {
  Trainer run;
  run.Train(81, 0.125);
  run.Train(1, 10);
  EXPECT_EQ(run.rate.updates_per_second(), 8);
  run.Train(1, 10);
  EXPECT_EQ(run.rate.updates_per_second(), 0.1);
  EXPECT_EQ(run.rate.patience_seconds(), 50);
  run.Train(3, 10);
  EXPECT_EQ(run.rate.updates_per_second(), 0.1);
}

}  // namespace
}  // namespace gimbal::coordinator

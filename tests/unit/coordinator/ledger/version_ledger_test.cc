#include "coordinator/ledger/version_ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kStages = 3;
const worker::ScheduleSpec kSchedule{.stages = kStages};

v1::StageUpdate Report(int stage, int64_t update) {
  v1::StageUpdate report;
  report.set_stage(stage);
  report.set_update(update);
  report.set_staleness(worker::ExpectedStaleness(kSchedule, stage, update));
  report.set_gradient_square_sum(stage + 1.0);
  if (stage == kStages - 1) report.set_loss(static_cast<double>(update));
  return report;
}

v1::Evaluation Evaluated(int64_t update, double loss) {
  v1::Evaluation evaluation;
  evaluation.set_update(update);
  evaluation.set_loss(loss);
  return evaluation;
}

TEST(VersionLedger, ARowIsCompleteWhenEveryStageHasReported) {
  VersionLedger ledger(kSchedule, 0);
  ASSERT_THAT(ledger.Record(Report(2, 1)), IsOk());
  ASSERT_THAT(ledger.Record(Report(2, 2)), IsOk());
  ASSERT_THAT(ledger.Record(Report(1, 1)), IsOk());
  EXPECT_THAT(ledger.TakeRows(), IsEmpty());
  ASSERT_THAT(ledger.Record(Report(0, 1)), IsOk());
  const auto rows = ledger.TakeRows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].step, 1);
  EXPECT_EQ(rows[0].loss, 1.0);
  EXPECT_EQ(rows[0].grad_norm, std::sqrt(6.0));
  EXPECT_THAT(rows[0].staleness, ElementsAre(0, 0, 0));
  EXPECT_FALSE(rows[0].valid_loss.has_value());
  EXPECT_EQ(ledger.rows_taken(), 1);
  EXPECT_EQ(ledger.common_version(), 1);
}

TEST(VersionLedger, RowsAreTheSameInEveryOrderOfReports) {
  constexpr int64_t kUpdates = 20;
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    VersionLedger ledger(kSchedule, 10);
    std::vector<MetricsRow> rows;
    while (ledger.common_version() < 10 + kUpdates) {
      const int stage = static_cast<int>(random() % kStages);
      const int64_t next = ledger.version(stage) + 1;
      if (next > 10 + kUpdates) continue;
      ASSERT_THAT(ledger.Record(Report(stage, next)), IsOk());
      if (random() % 2 == 0) continue;
      for (auto& row : ledger.TakeRows()) rows.push_back(std::move(row));
    }
    for (auto& row : ledger.TakeRows()) rows.push_back(std::move(row));
    ASSERT_THAT(rows, SizeIs(kUpdates));
    for (int64_t i = 0; i < kUpdates; ++i) {
      EXPECT_EQ(rows[i].step, 11 + i);
      EXPECT_EQ(rows[i].grad_norm, std::sqrt(6.0));
      EXPECT_THAT(rows[i].staleness, ElementsAre(2, 1, 0));
    }
  }
}

TEST(VersionLedger, ARowWaitsForItsEvaluation) {
  VersionLedger ledger(kSchedule, 0);
  ledger.ExpectEvaluation(1);
  for (int stage = 0; stage < kStages; ++stage) {
    ASSERT_THAT(ledger.Record(Report(stage, 1)), IsOk());
    ASSERT_THAT(ledger.Record(Report(stage, 2)), IsOk());
  }
  EXPECT_THAT(ledger.TakeRows(), IsEmpty());
  ASSERT_THAT(ledger.Record(Evaluated(1, 2.5)), IsOk());
  const auto rows = ledger.TakeRows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].valid_loss, 2.5);
  EXPECT_FALSE(rows[1].valid_loss.has_value());
}

TEST(VersionLedger, AnEvaluationThatNobodyAskedForIsAnError) {
  VersionLedger ledger(kSchedule, 0);
  ASSERT_THAT(ledger.Record(Report(2, 1)), IsOk());
  EXPECT_THAT(ledger.Record(Evaluated(1, 2.5)),
              StatusIs(absl::StatusCode::kInternal));
  ledger.ExpectEvaluation(2);
  EXPECT_THAT(ledger.Record(Evaluated(2, 2.5)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("stands at 1")));
}

TEST(VersionLedger, StalenessIsAsserted) {
  VersionLedger ledger(kSchedule, 0);
  ASSERT_THAT(ledger.Record(Report(0, 1)), IsOk());
  auto report = Report(0, 2);
  report.set_staleness(2);
  EXPECT_THAT(ledger.Record(report),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("staleness of update 2 at stage 0 is 2, the "
                                 "schedule expects 1")));
}

TEST(VersionLedger, UpdatesComeOneByOne) {
  VersionLedger ledger(kSchedule, 4);
  EXPECT_THAT(ledger.Record(Report(0, 4)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("expected 5")));
  EXPECT_THAT(ledger.Record(Report(0, 6)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("expected 5")));
  auto report = Report(0, 5);
  report.set_stage(kStages);
  EXPECT_THAT(ledger.Record(report), StatusIs(absl::StatusCode::kInternal));
}

TEST(VersionLedger, NotesWhatIsNotFinite) {
  for (double bad : {std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::quiet_NaN()}) {
    VersionLedger ledger(kSchedule, 0);
    ledger.ExpectEvaluation(3);
    for (int64_t update : {1, 2, 3, 4, 5}) {
      for (int stage = 0; stage < kStages; ++stage) {
        auto report = Report(stage, update);
        if (update == 1 && stage == 2) report.set_loss(bad);
        if (update == 2 && stage == 1) report.set_gradient_square_sum(bad);
        if (update == 4 && stage == 0) report.set_weights_not_finite(true);
        ASSERT_THAT(ledger.Record(report), IsOk());
      }
      if (update != 3) continue;
      ASSERT_THAT(ledger.Record(Evaluated(3, bad)), IsOk());
    }
    const auto rows = ledger.TakeRows();
    ASSERT_THAT(rows, SizeIs(5));
    EXPECT_THAT(rows[0].not_finite, HasSubstr("the loss is"));
    EXPECT_THAT(rows[1].not_finite, HasSubstr("gradients of stage 1 is"));
    EXPECT_THAT(rows[2].not_finite, HasSubstr("held-out loss"));
    EXPECT_THAT(rows[3].not_finite, HasSubstr("weight of stage 0"));
    EXPECT_EQ(rows[4].not_finite, "");
  }
}

// A minibatch that is left out may be no number both times.
TEST(VersionLedger, AReplayOfWhatIsNotFiniteIsTheSame) {
  VersionLedger ledger(kSchedule, 0);
  auto report = Report(2, 1);
  report.set_loss(std::numeric_limits<double>::quiet_NaN());
  report.set_gradient_square_sum(report.loss());
  ASSERT_THAT(ledger.Record(report), IsOk());
  ledger.Replay(2, 0);
  EXPECT_THAT(ledger.Record(report), IsOk());
  ledger.Replay(2, 0);
  EXPECT_THAT(ledger.Record(Report(2, 1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("replay")));
}

}  // namespace
}  // namespace gimbal::coordinator

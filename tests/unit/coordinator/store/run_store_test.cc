// One conformance suite for every implementation of RunStore.
#include "coordinator/store/run_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "coordinator/store/memory_run_store.h"
#include "coordinator/store/sqlite_run_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Kind { kMemory, kSqlite };

class RunStoreConformance : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kMemory) {
      store_ = std::make_unique<MemoryRunStore>();
    } else {
      Reopen();
    }
  }
  void Reopen() {
    store_.reset();
    auto store = OpenSqliteRunStore(dir_ / "coordinator.db");
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }

  TempDir dir_;
  std::unique_ptr<RunStore> store_;
};

TEST_P(RunStoreConformance, TheIdentityIsSetOnce) {
  ASSERT_OK_AND_ASSIGN(auto identity, store_->Identity());
  EXPECT_FALSE(identity.has_value());
  const RunIdentity mine{"demo-1", "abc", "run: {name: \"d\"}\n", "text"};
  ASSERT_THAT(store_->SetIdentity(mine), IsOk());
  ASSERT_OK_AND_ASSIGN(identity, store_->Identity());
  EXPECT_EQ(identity, mine);
  EXPECT_THAT(store_->SetIdentity(mine),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("demo-1")));
}

TEST_P(RunStoreConformance, ALayoutChangesAsAWhole) {
  const StoredDecision decision{
      .unix_seconds = 3, .what = "2 stages", .update = 6};
  const RefreshChange two{.from = 5, .periods = {2, 2}, .asked = true};
  const LayoutChange change{.config_digest = "def",
                            .config_yaml = "run: {name: \"e\"}\n",
                            .refresh_changes = {two},
                            .decision = decision};
  EXPECT_THAT(store_->ChangeLayout(change),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("holds no run")));
  EXPECT_THAT(*store_->Decisions(5), IsEmpty());
  ASSERT_THAT(store_->SetIdentity({"demo-1", "abc", "", "text"}), IsOk());
  ASSERT_THAT(store_->AddRefreshChange({.from = 5, .periods = {1, 2, 3}}),
              IsOk());
  ASSERT_EQ(*store_->Next("generation"), 1);
  ASSERT_THAT(store_->ChangeLayout(change), IsOk());
  const RunIdentity expected{"demo-1", "def", change.config_yaml, "text"};
  EXPECT_EQ(*store_->Identity(), expected);
  EXPECT_THAT(*store_->RefreshChanges(), ElementsAre(two));
  EXPECT_THAT(*store_->Decisions(5), ElementsAre(decision));
  EXPECT_EQ(*store_->Next("generation"), 3);
}

TEST_P(RunStoreConformance, RefreshChangesComeBackExactly) {
  EXPECT_THAT(*store_->RefreshChanges(), IsEmpty());
  const RefreshChange first{.from = 21,
                            .policy = 4,
                            .period = 10,
                            .periods = {1.0 / 3, 7, 1e-300},
                            .reason = "measured"};
  const RefreshChange second{
      .from = 11, .period = 2, .periods = {2, 2, 2}, .asked = true};
  ASSERT_THAT(store_->AddRefreshChange(first), IsOk());
  ASSERT_THAT(store_->AddRefreshChange(second), IsOk());
  if (GetParam() == Kind::kSqlite) Reopen();
  EXPECT_THAT(*store_->RefreshChanges(), ElementsAre(first, second));
}

TEST_P(RunStoreConformance, CountersGrowByOneEach) {
  EXPECT_EQ(*store_->Next("generation"), 1);
  EXPECT_EQ(*store_->Next("generation"), 2);
  EXPECT_EQ(*store_->Next("incarnation"), 1);
  EXPECT_EQ(*store_->Next("generation"), 3);
  EXPECT_EQ(*store_->Count("generation"), 3);
  EXPECT_EQ(*store_->Count("other"), 0);
}

TEST_P(RunStoreConformance, ARecoveryIsSavedAgainWhenMoreIsKnown) {
  EXPECT_THAT(*store_->Recoveries(), IsEmpty());
  Recovery first{.stage = 2, .reason = "lost", .detected_seconds = 1.5};
  const Recovery second{.stage = 0, .reason = "link"};
  ASSERT_THAT(store_->SaveRecovery(0, first), IsOk());
  ASSERT_THAT(store_->SaveRecovery(1, second), IsOk());
  first.recovered_seconds = 2.5;
  first.steps_replayed = 7;
  ASSERT_THAT(store_->SaveRecovery(0, first), IsOk());
  EXPECT_THAT(*store_->Recoveries(), ElementsAre(first, second));
}

TEST_P(RunStoreConformance, InterruptionsComeBack) {
  EXPECT_THAT(*store_->Interruptions(), IsEmpty());
  const Interruption first{1.5, 2.25}, second{3, 4};
  ASSERT_THAT(store_->AddInterruption(first), IsOk());
  ASSERT_THAT(store_->AddInterruption(second), IsOk());
  EXPECT_THAT(*store_->Interruptions(), ElementsAre(first, second));
}

TEST_P(RunStoreConformance, CheckpointsAreKeptAscendingAndOnce) {
  EXPECT_THAT(*store_->Checkpoints(), IsEmpty());
  for (int64_t update : {400, 200, 400}) {
    ASSERT_THAT(store_->AddCheckpoint(update, 1.5), IsOk());
  }
  EXPECT_THAT(*store_->Checkpoints(), ElementsAre(200, 400));
}

TEST_P(RunStoreConformance, WhatIsLeftOutComesBack) {
  EXPECT_THAT(*store_->LeftOuts(), IsEmpty());
  const LeftOut first{21, 40, "nan", "why 'a'", 3};
  const LeftOut second{50, 50, "loss_spike", "", 4};
  ASSERT_THAT(store_->AddLeftOut(first, 21), IsOk());
  ASSERT_THAT(store_->AddLeftOut(second, 50), IsOk());
  EXPECT_THAT(*store_->LeftOuts(), ElementsAre(first, second));
}

// Those that a user asked for stay.
TEST_P(RunStoreConformance, WhatIsLeftOutTakesThePlansMadeOfItAlong) {
  const RefreshChange before{.from = 49, .periods = {2}};
  const RefreshChange asked{.from = 55, .periods = {3}, .asked = true};
  for (const RefreshChange& change :
       {before, asked, RefreshChange{.from = 50, .periods = {4}},
        RefreshChange{.from = 60, .periods = {5}}}) {
    ASSERT_THAT(store_->AddRefreshChange(change), IsOk());
  }
  ASSERT_THAT(store_->AddLeftOut({39, 40, "nan", "", 3}, 50), IsOk());
  if (GetParam() == Kind::kSqlite) Reopen();
  EXPECT_THAT(*store_->RefreshChanges(), ElementsAre(before, asked));
  EXPECT_EQ(store_->LeftOuts()->size(), 1u);
}

TEST_P(RunStoreConformance, CheckpointsAreForgotten) {
  for (int64_t update : {10, 20, 30}) {
    ASSERT_THAT(store_->AddCheckpoint(update, 1), IsOk());
  }
  ASSERT_THAT(store_->ForgetCheckpointsAfter(20), IsOk());
  EXPECT_THAT(*store_->Checkpoints(), ElementsAre(10, 20));
  ASSERT_THAT(store_->ForgetCheckpointsAfter(0), IsOk());
  EXPECT_THAT(*store_->Checkpoints(), IsEmpty());
}

TEST_P(RunStoreConformance, TheNewestDecisionsComeLast) {
  EXPECT_THAT(*store_->Decisions(5), IsEmpty());
  const StoredDecision a{1.25, "a", "why 'a'; --"};
  const StoredDecision b{2, "b", "", /*update=*/0, /*generation=*/7};
  const StoredDecision c{3, "c", std::string("with\0zero", 9)};
  for (const auto& decision : {a, b, c}) {
    ASSERT_THAT(store_->AddDecision(decision), IsOk());
  }
  EXPECT_THAT(*store_->Decisions(2), ElementsAre(b, c));
  EXPECT_THAT(*store_->Decisions(9), ElementsAre(a, b, c));
  EXPECT_EQ(*store_->DecisionCount(), 3);
}

TEST_P(RunStoreConformance, FindsTheNewestDecisionOfAName) {
  EXPECT_EQ(*store_->LastReason("a"), "");
  for (const auto& [what, reason] :
       {std::pair{"a", "1"}, {"b", "2"}, {"a", "3"}, {"b", "4"}, {"ab", "5"}}) {
    ASSERT_THAT(store_->AddDecision({1, what, reason}), IsOk());
  }
  EXPECT_EQ(*store_->LastReason("a"), "3");
  EXPECT_EQ(*store_->LastReason("none"), "");
}

TEST_P(RunStoreConformance, SurvivesTheProcess) {
  if (GetParam() == Kind::kMemory) GTEST_SKIP() << "kept in memory only";
  const RunIdentity mine{"demo-1", "abc", "run:", "text"};
  ASSERT_THAT(store_->SetIdentity(mine), IsOk());
  EXPECT_EQ(*store_->Next("generation"), 1);
  ASSERT_THAT(store_->AddCheckpoint(7, 1), IsOk());
  ASSERT_THAT(store_->AddDecision({1, "a", "b"}), IsOk());
  Reopen();
  EXPECT_EQ(*store_->Identity(), mine);
  EXPECT_EQ(*store_->Next("generation"), 2);
  EXPECT_THAT(*store_->Checkpoints(), ElementsAre(7));
  EXPECT_EQ(store_->Decisions(1)->size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Stores, RunStoreConformance,
                         ::testing::Values(Kind::kMemory, Kind::kSqlite));

TEST(SqliteRunStore, NamesAFileThatIsNoStore) {
  TempDir dir;
  std::ofstream(dir / "x.db") << std::string(5000, 'x');
  EXPECT_THAT(
      OpenSqliteRunStore(dir / "x.db"),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("x.db: is damaged")));
  EXPECT_THAT(OpenSqliteRunStore(dir / "no/such.db"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no/such.db")));
}

}  // namespace
}  // namespace gimbal::coordinator

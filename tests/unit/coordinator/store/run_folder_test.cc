#include "coordinator/store/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/store/sqlite_run_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::RunConfig Config(const std::string& lr = "1.0e-3") {
  const auto config = config::ParseRunConfig(
      "run: {name: demo, steps: 10}\n"
      "data: {train: t}\n"
      "model: {layers: 2, hidden: 8, heads: 2, context: 8}\n"
      "optimizer: {lr: " +
          lr + "}\n",
      "c.yaml", {});
  EXPECT_THAT(config, IsOk());
  return *config;
}

constexpr char kData[] = "data.train is A\ndata.valid is none";

TEST(RunFolder, IsTakenOnceAtATime) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                       RunFolder::Take(dir / "run", Config(), kData, false));
  EXPECT_THAT(folder.identity.run_id, StartsWith("demo-"));
  EXPECT_THAT(RunFolder::Take(dir / "run", Config(), kData, true),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("pid " + std::to_string(getpid()))));
}

TEST(RunFolder, IsMissedWhenItWasMovedOrReplaced) {
  TempDir dir;
  const std::string run = dir / "run";
  ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                       RunFolder::Take(run, Config(), kData, false));
  EXPECT_THAT(folder.lock.CheckInPlace(), IsOk());
  std::filesystem::rename(run, dir / "moved");
  EXPECT_THAT(folder.lock.CheckInPlace(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(run)));
  ASSERT_OK_AND_ASSIGN(const RunFolder other,
                       RunFolder::Take(run, Config(), kData, false));
  EXPECT_THAT(folder.lock.CheckInPlace(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("moved")));
}

TEST(RunFolder, AUsedFolderNeedsResume) {
  TempDir dir;
  std::string run_id;
  {
    ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                         RunFolder::Take(dir.path(), Config(), kData, false));
    run_id = folder.identity.run_id;
  }
  EXPECT_THAT(
      RunFolder::Take(dir.path(), Config(), kData, false),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--resume")));
  ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                       RunFolder::Take(dir.path(), Config(), kData, true));
  EXPECT_EQ(folder.identity.run_id, run_id);
}

// A write-ahead log that is damaged or was not copied: nothing is written to a
// database that has forgotten its run.
TEST(RunFolder, ADatabaseThatHasLostItsRunIsNoNewOne) {
  TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(RunFolder folder,
                         RunFolder::Take(dir.path(), Config(), kData, false));
    folder.metrics.Append({.step = 1});
    ASSERT_THAT(folder.metrics.Flush(), IsOk());
  }
  ASSERT_TRUE(std::filesystem::remove(dir / "coordinator.db"));
  for (const bool resume : {false, true}) {
    EXPECT_THAT(
        RunFolder::Take(dir.path(), Config(), kData, resume),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("coordinator.db-wal")))
        << resume;
    ASSERT_OK_AND_ASSIGN(const auto store,
                         OpenSqliteRunStore(dir / "coordinator.db"));
    EXPECT_FALSE(store->Identity()->has_value());
  }
}

TEST(RunFolder, NamesTheFirstDifferenceToAnotherConfig) {
  TempDir dir;
  ASSERT_THAT(RunFolder::Take(dir.path(), Config(), kData, false), IsOk());
  EXPECT_THAT(RunFolder::Take(dir.path(), Config("2.0e-3"), kData, true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("optimizer.lr")));
}

TEST(RunFolder, OtherDataIsAnotherRun) {
  TempDir dir;
  ASSERT_THAT(RunFolder::Take(dir.path(), Config(), kData, false), IsOk());
  EXPECT_THAT(RunFolder::Take(dir.path(), Config(),
                              "data.train is B\ndata.valid is none", true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("data.train is B here, data.train is A")));
  EXPECT_THAT(RunFolder::Take(dir.path(), Config(),
                              "data.train is A\ndata.valid is A", true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("data.valid is none there")));
  EXPECT_THAT(RunFolder::Take(dir.path(), Config(), kData, true), IsOk());
}

TEST(RunFolder, OnlyTheHolderOfTheLockWrites) {
  TempDir dir;
  const std::string config = dir / "config.yaml";
  const std::string serving = dir / "coordinator.json";
  ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                       RunFolder::Take(dir.path(), Config(), kData, false));
  ASSERT_OK_AND_ASSIGN(const std::string written, io::ReadFile(config));
  EXPECT_EQ(written, config::ToYaml(Config()));
  ASSERT_THAT(io::WriteFileAtomically(serving, "{}"), IsOk());
  auto other = Config();
  other.mutable_checkpoint()->set_every(7);  // changes no number
  EXPECT_THAT(RunFolder::Take(dir.path(), other, kData, true),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(*io::ReadFile(config), written);
  EXPECT_TRUE(std::filesystem::exists(serving));
}

TEST(RunFolder, WhatAKilledCoordinatorLeftIsRemoved) {
  TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "coordinator.json", "{}"), IsOk());
  ASSERT_THAT(RunFolder::Take(dir.path(), Config(), kData, true), IsOk());
  EXPECT_FALSE(std::filesystem::exists(dir / "coordinator.json"));
}

// One that was killed between its store and its file.
TEST(RunFolder, ADecisionOfTheStoreIsInTheFileAfterwards) {
  TempDir dir;
  const std::string path = dir / "events.jsonl";
  {
    ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                         RunFolder::Take(dir.path(), Config(), kData, false));
    ASSERT_THAT(folder.store->AddDecision({1700000000.123456789, "a", "b",
                                           /*update=*/12,
                                           /*generation=*/3}),
                IsOk());
  }
  for (int life = 0; life < 2; ++life) {
    ASSERT_THAT(RunFolder::Take(dir.path(), Config(), kData, true).status(),
                IsOk());
  }
  ASSERT_OK_AND_ASSIGN(const std::string text, io::ReadFile(path));
  EXPECT_THAT(
      text, ::testing::MatchesRegex("\\{[^\n]*\"what\":\"a\",\"reason\":\"b\","
                                    "\"update\":12,\"generation\":3\\}\n"));
}

TEST(RunFolder, TwoRunsOfOneConfigDiffer) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const RunFolder a,
                       RunFolder::Take(dir / "a", Config(), kData, false));
  ASSERT_OK_AND_ASSIGN(const RunFolder b,
                       RunFolder::Take(dir / "b", Config(), kData, true));
  EXPECT_NE(a.identity.run_id, b.identity.run_id);
  EXPECT_EQ(a.identity.config_digest, b.identity.config_digest);
}

}  // namespace
}  // namespace gimbal::coordinator

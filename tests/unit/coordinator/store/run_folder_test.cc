#include "coordinator/store/run_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
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

// A run of three decisions whose coordinator was killed; the copy has its
// write-ahead log.
class KilledRun : public ::testing::Test {
 protected:
  KilledRun() {
    const auto folder = RunFolder::Take(dir_ / "run", Config(), kData, false);
    EXPECT_THAT(folder, IsOk());
    for (const char* what : {"a", "b", "c"}) Decide(*folder, what);
    std::filesystem::copy(dir_ / "run", copy_);
  }

  static void Decide(const RunFolder& folder, const std::string& what) {
    const StoredDecision decision{1700000000.123456789, what, "because"};
    EXPECT_THAT(folder.store->AddDecision(decision), IsOk());
    EventFile events = *EventFile::Open(folder.run_dir + "/events.jsonl");
    events.Append(decision);
  }

  absl::Status Resume() {
    return RunFolder::Take(copy_, Config(), kData, true).status();
  }
  std::string Read(const std::string& file) {
    return *io::ReadFile(copy_ + "/" + file);
  }
  void Write(const std::string& file, const std::string& text) {
    std::ofstream(copy_ + "/" + file, std::ios::binary) << text;
  }

  TempDir dir_;
  const std::string copy_ = dir_ / "copy";
};

TEST_F(KilledRun, IsTakenUp) { EXPECT_THAT(Resume(), IsOk()); }

// The run once went on without the decisions, with other numbers.
TEST_F(KilledRun, WhatAFlippedBitOfTheLogHidesIsMissed) {
  std::string log = Read("coordinator.db-wal");
  log[log.size() - 3000] ^= 0x40;
  Write("coordinator.db-wal", log);
  const absl::Status status = Resume();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("coordinator.db-wal")));
  EXPECT_THAT(status.ToString(), HasSubstr("'c'"));
  EXPECT_THAT(Read("config.yaml"), HasSubstr("demo"));
}

// The file may lag behind the store.
TEST_F(KilledRun, LinesThatWereNotWrittenAreNoLoss) {
  const std::string events = Read("events.jsonl");
  for (const size_t cut : {size_t{10}, events.size() / 2, events.size()}) {
    Write("events.jsonl", events.substr(0, events.size() - cut));
    EXPECT_THAT(Resume(), IsOk()) << cut;
    const std::string after = Read("events.jsonl");
    EXPECT_THAT(after, HasSubstr("\"what\":\"c\""));
    EXPECT_TRUE(after.ends_with("}\n")) << after;
    const std::vector<std::string> lines =
        absl::StrSplit(after, '\n', absl::SkipEmpty());
    for (const std::string& line : lines) {
      EXPECT_TRUE(line.starts_with("{\"unix") && line.ends_with("}")) << line;
    }
  }
}

TEST(EventFile, ALineThatDoesNotFitLeavesNoPartOfItself) {
  TempDir dir;
  const std::string path = dir / "events.jsonl";
  ASSERT_OK_AND_ASSIGN(EventFile events, EventFile::Open(path));
  events.Append({1, "first", "fits"});
  ASSERT_OK_AND_ASSIGN(const std::string before, io::ReadFile(path));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = before.size() + 10;
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  events.Append({2, "second", "does not fit"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(*io::ReadFile(path), before);
  events.Append({3, "third", "fits"});
  EXPECT_THAT(*io::ReadFile(path), ::testing::StartsWith(before + "{"));
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

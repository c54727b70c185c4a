#include "coordinator/cli/preflight.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

class PreflightTest : public testing::Test {
 protected:
  PreflightTest() {
    std::ofstream(dir_ / "text") << std::string(1000, 'a');
    std::ofstream(dir_ / "c.yaml")
        << "run: {steps: 10, name: demo}\n"
        << "data: {train: " << (dir_ / "text") << ", format: text}\n"
        << "model: {layers: 4, hidden: 8, heads: 2, context: 16}\n"
        << "pipeline: {stages: 4}\n";
    request_.config_path = dir_ / "c.yaml";
    request_.run_dir = dir_ / "run";
  }

  absl::StatusOr<TrainPlan> Check() { return Preflight(request_, 0); }

  // What `gimbal train` leaves behind.
  void MakeRun() {
    const absl::StatusOr<TrainPlan> plan = Check();
    ASSERT_THAT(plan, IsOk());
    ASSERT_THAT(io::MakeFolders(plan->run_dir), IsOk());
    ASSERT_THAT(io::WriteFileAtomically(plan->run_dir + "/config.yaml",
                                        config::ToYaml(plan->config)),
                IsOk());
  }

  TempDir dir_;
  TrainRequest request_;
};

TEST_F(PreflightTest, AGoodRequestIsResolvedAndNothingIsWritten) {
  ASSERT_OK_AND_ASSIGN(const TrainPlan plan, Check());
  EXPECT_EQ(plan.run_dir, dir_ / "run");
  EXPECT_EQ(plan.config.data().train(), dir_ / "text");
  EXPECT_EQ(plan.config.pipeline().stages(), 4);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run"));
}

TEST_F(PreflightTest, RunFolderIsNamedAfterTheRunAndTheTime) {
  request_.run_dir = "";
  ASSERT_OK_AND_ASSIGN(const TrainPlan plan, Check());
  EXPECT_THAT(plan.run_dir, MatchesRegex("runs/demo-[0-9]{8}-[0-9]{6}"));
}

TEST_F(PreflightTest, ANameNeverLeavesTheFolderOfRuns) {
  request_.run_dir = "";
  request_.overrides.push_back("run.name='../../a b'");
  ASSERT_OK_AND_ASSIGN(const TrainPlan plan, Check());
  EXPECT_THAT(plan.run_dir, MatchesRegex("runs/_._.._a_b-[0-9]{8}-[0-9]{6}"));
}

TEST_F(PreflightTest, WorkersAreAtMostOnePerStage) {
  EXPECT_EQ(DefaultWorkers(1, 2, 0), 1);
  EXPECT_EQ(DefaultWorkers(4, 2, 0), 4);
  EXPECT_EQ(DefaultWorkers(32, 2, 0), 4);
  EXPECT_EQ(DefaultWorkers(32, 16, 0), 16);
  EXPECT_EQ(DefaultWorkers(32, 16, 2), 2);
  EXPECT_EQ(DefaultWorkers(4, 2, 8), 4);
  request_.workers = 5;
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("--workers 5: expected 1 to 4")));
}

TEST_F(PreflightTest, AResumedRunMayHaveOtherStages) {
  MakeRun();
  request_.resume = true;
  ASSERT_OK_AND_ASSIGN(TrainPlan plan, Check());
  EXPECT_EQ(plan.stages_before, 0);
  request_.overrides = {"pipeline.stages=2"};
  ASSERT_OK_AND_ASSIGN(plan, Check());
  EXPECT_EQ(plan.stages_before, 4);
  EXPECT_EQ(plan.config.pipeline().stages(), 2);
  EXPECT_EQ(plan.workers, 2);
  request_.overrides.push_back("optimizer.lr=0.5");
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("optimizer.lr: 0.5 here, 0.001 there")));
}

TEST_F(PreflightTest, TheOriginIsTheRunFoldersOwn) {
  request_.overrides = {"pipeline.origin=5"};
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("a new run begins at update 0")));
  request_.overrides = {};
  MakeRun();
  std::string yaml = *io::ReadFile(dir_ / "run/config.yaml");
  yaml.replace(yaml.find("origin: 0"), 9, "origin: 5");
  ASSERT_THAT(io::WriteFileAtomically(dir_ / "run/config.yaml", yaml), IsOk());
  request_.resume = true;
  ASSERT_OK_AND_ASSIGN(const TrainPlan plan, Check());
  EXPECT_EQ(plan.config.pipeline().origin(), 5);
  request_.overrides = {"pipeline.origin=7"};
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("7 here, 5 in")));
}

TEST_F(PreflightTest, CudaNeedsABackEnd) {
  request_.device = "cuda";
  EXPECT_THAT(Check(), StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("use --device cpu")));
  request_.device = "tpu";
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(PreflightTest, NcclNeedsAGpuPerWorker) {
  request_.overrides = {"cluster.transport=nccl"};
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("the workers compute on the CPU")));
  request_.workers = 1;
  ASSERT_OK_AND_ASSIGN(TrainPlan plan, Check());
  plan.workers = 2;
  plan.gpus = 2;
  EXPECT_THAT(CheckTransport(plan, {.nccl_missing = "no library"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no library")));
  EXPECT_THAT(CheckTransport(plan, {.nccl_version = 22809}), IsOk());
  plan.config.mutable_cluster()->set_spares(1);
  EXPECT_THAT(CheckTransport(plan, {.nccl_version = 22809}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("2 workers and 1 spares would share 2 GPUs")));
  plan.config.mutable_cluster()->set_transport(v1::TRANSPORT_TCP);
  EXPECT_THAT(CheckTransport(plan, {}), IsOk());
}

TEST_F(PreflightTest, DataIsOpened) {
  request_.overrides = {"data.train=" + (dir_ / "missing")};
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kNotFound, HasSubstr(dir_ / "missing")));
  std::ofstream(dir_ / "short") << std::string(16, 'a');
  request_.overrides = {"data.valid=" + (dir_ / "short")};
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr(dir_ / "short")));
}

// Evaluations once went round and counted samples twice.
TEST_F(PreflightTest, AnEvaluationFitsIntoTheHeldOutData) {
  std::ofstream(dir_ / "valid") << std::string(16 * 24 + 1, 'a');
  request_.overrides = {"data.valid=" + (dir_ / "valid"), "eval.batches=4"};
  EXPECT_THAT(
      Check(),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("holds 3 microbatches of 8 samples of 16"),
                     HasSubstr("set eval.batches to 3"))));
  request_.overrides[1] = "eval.batches=3";
  EXPECT_THAT(Check(), IsOk());
  request_.overrides.push_back("batch.microbatch=25");
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("leave data.valid out")));
}

TEST_F(PreflightTest, DataOfAnotherTokenizerIsRefused) {
  std::ofstream(dir_ / "train-00000.bin") << std::string(100, 'a');
  const auto made_with = [this](const std::string& tokenizer) {
    std::ofstream(dir_ / "meta.json")
        << R"({"format": 1, "tokenizer": ")" << tokenizer << R"(", )"
        << R"("vocab": 256, "dtype": "u8", "splits": {"train": )"
        << R"({"tokens": 100, "files": ["train-00000.bin"]}}})";
  };
  made_with("bytes");
  request_.overrides = {"data.train=" + dir_.path(), "data.format=tokens"};
  EXPECT_THAT(Check(), IsOk());
  request_.overrides.push_back("model.vocab=128");
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("model.vocab is 128")));
  made_with("other");
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("tokenizer 'other'")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run"));
}

TEST_F(PreflightTest, AFolderInUseIsRefused) {
  ASSERT_THAT(io::MakeFolders(dir_ / "run"), IsOk());
  EXPECT_THAT(Check(), IsOk());  // empty
  std::ofstream(dir_ / "run/notes") << "mine";
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("is not empty")));
}

TEST_F(PreflightTest, WhatACoordinatorThatDidNotStartLeftIsNoRun) {
  ASSERT_THAT(io::MakeFolders(dir_ / "run/logs"), IsOk());
  std::ofstream(dir_ / "run/coordinator.lock") << "1";
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(PreflightTest, TheFolderOfTheCheckpointsIsLookedAt) {
  request_.overrides = {"checkpoint.dir=" + (dir_ / "text/checkpoints")};
  EXPECT_THAT(Check(), StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("another checkpoint.dir")));
  const std::string taken = dir_ / "taken";
  ASSERT_THAT(io::WriteFileAtomically(taken + "/run", "other-1\n"), IsOk());
  request_.overrides = {"checkpoint.dir=" + taken};
  EXPECT_THAT(Check(), StatusIs(StatusCode::kAlreadyExists,
                                HasSubstr("another run (other-1)")));
}

TEST_F(PreflightTest, NamesThatNoMessageCarriesAreRefused) {
  request_.run_dir = dir_ / "run-\xff";
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("the name is not UTF-8")));
}

TEST_F(PreflightTest, AFolderBelowAFileIsRefused) {
  request_.run_dir = dir_ / "text/run";
  EXPECT_THAT(Check(), StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("is not a folder")));
}

TEST_F(PreflightTest, ARunIsGoneOnWithOnlyOnRequest) {
  MakeRun();
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("add --resume")));
  request_.resume = true;
  EXPECT_THAT(Check(), IsOk());
  request_.config_path = "";
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(PreflightTest, ResumeWithAnotherConfigIsRefused) {
  MakeRun();
  request_.resume = true;
  request_.overrides = {"optimizer.lr=0.5"};
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("optimizer.lr"), HasSubstr("0.5"))));
  request_.overrides = {"checkpoint.every=7"};  // changes no number
  EXPECT_THAT(Check(), IsOk());
}

// Its checkpoints were once said to be those of another run.
TEST_F(PreflightTest, ResumeWithoutTheDatabaseSaysSo) {
  MakeRun();
  ASSERT_THAT(io::WriteFileAtomically(dir_ / "run/checkpoints/run", "demo-1\n"),
              IsOk());
  request_.resume = true;
  EXPECT_THAT(Check(), StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("run/coordinator.db is missing")));
  std::ofstream(dir_ / "run/coordinator.db") << "";
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(PreflightTest, ResumeNeedsARun) {
  request_.resume = true;
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kNotFound, HasSubstr("holds no run")));
  request_.run_dir = "";
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--run-dir")));
}

TEST_F(PreflightTest, ConfigErrorsAreKept) {
  request_.overrides = {"model.layers=3"};
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("layers")));
}

}  // namespace
}  // namespace gimbal::cli

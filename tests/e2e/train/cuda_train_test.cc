// `gimbal train --device cuda` with the real programs, on the host layer, which
// plays four GPUs that NCCL joins.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/nccl_faults.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using test_support::Command;
using test_support::CommandResult;
using test_support::Difference;
using ::testing::HasSubstr;

class CudaTrain : public test_support::TrainFixture {
 protected:
  CudaTrain() {
    setenv("GIMBAL_CUDA_PLUGIN", GIMBAL_CUDA_HOST_PLUGIN, /*overwrite=*/1);
    SetGpus(4);
  }
  ~CudaTrain() override {
    unsetenv("GIMBAL_CUDA_PLUGIN");
    unsetenv("GIMBAL_CUDA_HOST_DEVICES");
  }

  // Kills a worker of a run with these arguments once it has so many rows:
  // there is one recovery, and the numbers are those of `whole`.
  void ExpectAKillChangesNothing(const std::vector<std::string>& arguments,
                                 int rows, const std::string& whole) {
    Command command(TrainArguments("killed", arguments));
    ASSERT_TRUE(WaitForRows(command, "killed", rows)) << Logs("killed");
    const std::vector<int> workers = WorkerPids("killed");
    ASSERT_EQ(workers.size(), 4u) << Logs("killed");
    ASSERT_EQ(kill(workers[1], SIGKILL), 0);
    const CommandResult result = command.Wait(std::chrono::seconds(240));
    EXPECT_EQ(result.exit_code, 0) << result.output << Logs("killed");
    EXPECT_EQ(Difference(NumbersOf("killed"), NumbersOf(whole)), "");
    EXPECT_EQ(Summary("killed").at("recoveries").size(), 1u);
  }

  static void SetGpus(int count) {
    setenv("GIMBAL_CUDA_HOST_DEVICES", std::to_string(count).c_str(),
           /*overwrite=*/1);
  }

  // Small: every thread of every block is a fibre here.
  static std::vector<std::string> On(const std::string& device,
                                     std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--device", device, "--set", "model.layers=4",
                             "--set", "model.context=8"});
    return more;
  }
  std::vector<double> Losses(const std::string& run) {
    std::istringstream rows(
        test_support::ReadText(folder_ / (run + "/metrics.jsonl")));
    std::vector<double> losses;
    for (std::string row; std::getline(rows, row);) {
      losses.push_back(nlohmann::json::parse(row).at("loss"));
    }
    return losses;
  }
};

TEST_F(CudaTrain, HasTheCpusLossesAndTheSameNumbersForAnyWorkers) {
  const std::vector<std::string> steps = {"--set", "run.steps=25", "--set",
                                          "optimizer.name=adamw"};
  MustTrain("cpu", On("cpu", steps));
  MustTrain("four", On("cuda", steps));
  EXPECT_THAT(test_support::ReadText(folder_ / "four/events.jsonl"),
              HasSubstr("tensors between workers travel over NCCL"));
  const std::vector<double> cpu = Losses("cpu"), cuda = Losses("four");
  ASSERT_EQ(cuda.size(), 25u);
  ASSERT_EQ(cpu.size(), 25u);
  for (size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_NEAR(cuda[i], cpu[i], 1e-4 * cpu[i]) << "update " << i + 1;
  }
  EXPECT_NE(Difference(NumbersOf("cpu"), NumbersOf("four")), "")
      << "not even a last bit: did it run on the device?";
  std::vector<std::string> alone = steps;
  alone.insert(alone.end(), {"--workers", "1"});
  MustTrain("one", On("auto", alone));
  EXPECT_EQ(Difference(NumbersOf("one"), NumbersOf("four")), "");
}

// Basis rotation divides by the root of second moments also where gradients are
// rounding errors, so the last bits of a product show in the losses. How much
// is no matter of the device: two kinds of CPU kernels are the measure.
TEST_F(CudaTrain, RotatesAsCloseToTheCpuAsCpusAreToEachOther) {
  const std::vector<std::string> steps = {"--set", "run.steps=25", "--workers",
                                          "1"};
  MustTrain("cpu", On("cpu", steps));
  setenv("OPENBLAS_CORETYPE", "Nehalem", /*overwrite=*/1);
  MustTrain("other", On("cpu", steps));
  unsetenv("OPENBLAS_CORETYPE");
  MustTrain("cuda", On("cuda", steps));
  const std::vector<double> cpu = Losses("cpu");
  const auto apart = [&](const std::string& run) {
    const std::vector<double> losses = Losses(run);
    EXPECT_EQ(losses.size(), cpu.size());
    double most = 0;
    for (size_t i = 0; i < std::min(cpu.size(), losses.size()); ++i) {
      most = std::max(most, std::abs(losses[i] - cpu[i]) / cpu[i]);
    }
    return most;
  };
  const double cpus = apart("other");
  ASSERT_GT(cpus, 0) << "OpenBLAS took the same kernels twice";
  EXPECT_LT(cpus, 2e-3);
  EXPECT_LT(apart("cuda"), 5 * cpus);
  EXPECT_GT(apart("cuda"), 0);
}

TEST_F(CudaTrain, AKilledWorkerIsReplacedAndTheNumbersStayTheSame) {
  // A broken connection tells of the kill at once; a lease that ran out on a
  // busy machine would be another loss.
  const std::vector<std::string> longer = {"--set", "run.steps=40", "--set",
                                           "cluster.lease=60s"};
  MustTrain("whole", On("cuda", longer));
  ExpectAKillChangesNothing(On("cuda", longer), 10, "whole");
}

// A kill in the middle changes no number of a run in less than fp32 either, nor
// does the number of workers; its losses are close to those of fp32.
struct Reduced {
  const char* key;
  const char* name;
  double furthest;
};
class ReducedCudaTrain : public CudaTrain,
                         public testing::WithParamInterface<Reduced> {};
INSTANTIATE_TEST_SUITE_P(
    All, ReducedCudaTrain,
    testing::Values(Reduced{"precision.compute", "bf16", 1e-3},
                    Reduced{"precision.matmul", "tf32", 1e-3}),
    [](const auto& info) { return info.param.name; });

TEST_P(ReducedCudaTrain, HasTheLossesOfFp32NearlyAndTheSameNumbersAlways) {
  const auto more = [](std::vector<std::string> these) {
    these.insert(these.end(),
                 {"--set", "run.steps=25", "--set", "optimizer.name=adamw",
                  "--set", "cluster.lease=60s"});
    return these;
  };
  const std::vector<std::string> reduced =
      more({"--set", absl::StrCat(GetParam().key, "=", GetParam().name)});
  MustTrain("fp32", On("cuda", more({})));
  std::vector<std::string> alone = reduced;
  alone.insert(alone.end(), {"--workers", "1"});
  MustTrain("one", On("auto", alone));
  ExpectAKillChangesNothing(On("cuda", reduced), 5, "one");
  const std::vector<double> expected = Losses("fp32"), losses = Losses("one");
  ASSERT_EQ(losses.size(), 25u);
  ASSERT_EQ(expected.size(), 25u);
  double most = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    most = std::max(most, std::abs(losses[i] - expected[i]) / expected[i]);
  }
  EXPECT_LT(most, GetParam().furthest);
  EXPECT_GT(most, 1e-7) << "that is fp32";
  RecordProperty("distance", std::to_string(most));
  EXPECT_THAT(test_support::ReadText(folder_ / "one/events.jsonl"),
              HasSubstr(absl::StrCat(", ", GetParam().name)));
}

// With the optimizer's state on the host, a kill in the middle and any number
// of workers there are the bits of a run that keeps it on the device.
TEST_F(CudaTrain, WithItsStateOnTheHostItHasTheSameNumbers) {
  const auto more = [](std::vector<std::string> these) {
    these.insert(these.end(),
                 {"--set", "run.steps=25", "--set", "cluster.lease=60s"});
    return these;
  };
  MustTrain("device", On("cuda", more({})));
  const std::vector<std::string> host =
      more({"--set", "optimizer.offload=host"});
  std::vector<std::string> alone = host;
  alone.insert(alone.end(), {"--workers", "1"});
  MustTrain("one", On("cuda", alone));
  EXPECT_EQ(Difference(NumbersOf("one"), NumbersOf("device")), "");
  ExpectAKillChangesNothing(On("cuda", host), 5, "device");
  const CommandResult refused = test_support::Run(TrainArguments(
      "refused", {"--device", "cpu", "--set", "optimizer.offload=host"}));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("optimizer.offload: host is for GPUs"));
}

TEST_P(ReducedCudaTrain, IsRefusedWhereThereIsNoGpu) {
  const auto refused = [&](const std::string& device) {
    const CommandResult result = test_support::Run(TrainArguments(
        "refused", {"--device", device, "--set",
                    absl::StrCat(GetParam().key, "=", GetParam().name)}));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_EQ(Logs("refused"), "");
    return result.output;
  };
  EXPECT_THAT(refused("cpu"),
              HasSubstr(absl::StrCat(GetParam().name,
                                     " does not run on the CPU: use --device "
                                     "cuda, or ",
                                     GetParam().key, ": fp32")));
  SetGpus(0);
  EXPECT_THAT(refused("auto"), HasSubstr("--device auto: no CUDA device"));
  EXPECT_THAT(refused("cuda"), HasSubstr("--device cuda: no CUDA device"));
}

// Every fault that the look-alike of NCCL has, one after the other, while a run
// goes on: each costs a recovery and changes no number.
TEST_F(CudaTrain, NoFaultOfNcclChangesANumberOrHangs) {
  const auto more = [](const std::string& transport) {
    return On("cuda", {"--set", "run.steps=100", "--set", "cluster.lease=60s",
                       "--set", "cluster.restart_budget=100", "--set",
                       "cluster.transport=" + transport, "--set",
                       "cluster.link_timeout=4s"});
  };
  MustTrain("tcp", more("tcp"));
  test_support::NcclFaults faults;
  Command command(TrainArguments("nccl", more("nccl")));
  int64_t rows = 10;
  for (const std::vector<std::string>& at_once :
       std::vector<std::vector<std::string>>{{"error"},
                                             {"gone"},
                                             {"silence"},
                                             {"init", "error"},
                                             {"abort", "error"}}) {
    ASSERT_TRUE(WaitForRows(command, "nccl", rows)) << Logs("nccl");
    for (const std::string& fault : at_once) faults.Ask(fault);
    for (const std::string& fault : at_once) {
      while (!faults.Met(fault)) {
        ASSERT_TRUE(command.Running()) << fault << "\n" << Logs("nccl");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    rows += 15;
  }
  const CommandResult result = command.Wait(std::chrono::seconds(240));
  EXPECT_EQ(result.exit_code, 0) << result.output << Logs("nccl");
  EXPECT_EQ(Difference(NumbersOf("nccl"), NumbersOf("tcp")), "");
  EXPECT_GE(Summary("nccl").at("recoveries").size(), 5u);
  const std::string events = "/events.jsonl";
  EXPECT_THAT(test_support::ReadText(folder_ / ("nccl" + events)),
              HasSubstr("tensors between workers travel over NCCL"));
  EXPECT_THAT(test_support::ReadText(folder_ / ("tcp" + events)),
              HasSubstr("tensors between workers travel over TCP"));
  EXPECT_THAT(Logs("nccl"), HasSubstr("ncclCommAbort has not returned"));
}

TEST_F(CudaTrain, NcclIsRefusedToWorkersThatShareAGpu) {
  SetGpus(1);
  std::vector<std::string> more = {"--set",     "run.steps=5",
                                   "--workers", "2",
                                   "--set",     "cluster.transport=nccl"};
  const CommandResult result =
      test_support::Run(TrainArguments("refused", On("cuda", more)));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("2 workers and 0 spares would share 1 GPU"));
  EXPECT_THAT(result.output, HasSubstr("cluster.transport tcp"));
  // Left to itself it goes through the host's memory, and says why.
  more.back() = "cluster.transport=auto";
  MustTrain("shared", On("cuda", more));
  EXPECT_THAT(test_support::ReadText(folder_ / "shared/events.jsonl"),
              HasSubstr("which NCCL does not allow"));
}

TEST_F(CudaTrain, WhatTheDeviceLacksIsRefusedBeforeTheRunStarts) {
  const CommandResult result = test_support::Run(TrainArguments(
      "refused", {"--device", "cuda", "--set", "model.hidden=256", "--set",
                  "model.heads=1"}));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("model.heads = 256 above 128 does not run"));
  EXPECT_EQ(Logs("refused"), "");
}

}  // namespace
}  // namespace gimbal

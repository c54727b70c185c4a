// `gimbal train --device cuda` with the real programs, on the host layer.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using test_support::Command;
using test_support::CommandResult;
using test_support::Difference;

class CudaTrain : public test_support::TrainFixture {
 protected:
  CudaTrain() {
    setenv("GIMBAL_CUDA_PLUGIN", GIMBAL_CUDA_HOST_PLUGIN, /*overwrite=*/1);
  }
  ~CudaTrain() override { unsetenv("GIMBAL_CUDA_PLUGIN"); }

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

TEST_F(CudaTrain, AKilledWorkerIsReplacedAndTheNumbersStayTheSame) {
  // A broken connection tells of the kill at once; a lease that ran out on a
  // busy machine would be another loss.
  const std::vector<std::string> longer = {"--set", "run.steps=40", "--set",
                                           "cluster.lease=60s"};
  MustTrain("whole", On("cuda", longer));
  Command command(TrainArguments("killed", On("cuda", longer)));
  ASSERT_TRUE(WaitForRows(command, "killed", 10)) << Logs("killed");
  const std::vector<int> workers = WorkerPids("killed");
  ASSERT_EQ(workers.size(), 4u) << Logs("killed");
  ASSERT_EQ(kill(workers[1], SIGKILL), 0);
  const CommandResult result = command.Wait(std::chrono::seconds(240));
  EXPECT_EQ(result.exit_code, 0) << result.output << Logs("killed");
  EXPECT_EQ(Difference(NumbersOf("killed"), NumbersOf("whole")), "");
  EXPECT_EQ(Summary("killed").at("recoveries").size(), 1u);
}

TEST_F(CudaTrain, WhatTheDeviceLacksIsRefusedBeforeTheRunStarts) {
  const CommandResult result = test_support::Run(TrainArguments(
      "refused", {"--device", "cuda", "--set", "model.hidden=256", "--set",
                  "model.heads=1"}));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              ::testing::HasSubstr("model.heads = 256 above 128 does not run"));
  EXPECT_EQ(Logs("refused"), "");
}

}  // namespace
}  // namespace gimbal

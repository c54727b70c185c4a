// Runs of the real programs in a folder of their own, and what must be equal in
// two of them. For tests of the contract with processes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace gimbal::test_support {

// The metrics without `seconds`, and the checksums of the final weights and
// optimizer state.
struct Numbers {
  std::string metrics;
  std::map<std::string, std::string> files;
};

// What is not the same in two runs; empty when all numbers are.
std::string Difference(const Numbers& a, const Numbers& b);

std::string ReadText(const std::string& path);
int64_t CountOf(const std::string& word, const std::string& text);

// A corpus and a config of 8 layers, 4 stages and 40 updates, a checkpoint
// every 10, an evaluation every 15.
class TrainFixture : public ::testing::Test {
 protected:
  TrainFixture();

  std::vector<std::string> TrainArguments(const std::string& run,
                                          const std::vector<std::string>& more);
  void MustTrain(const std::string& run, const std::vector<std::string>& more);
  std::string Logs(const std::string& run);
  // Waits until the run's metrics hold at least `rows` updates. False when the
  // command has ended before, or after a minute.
  bool WaitForRows(Command& command, const std::string& run, int64_t rows);
  // Pids of the workers, or nothing when the coordinator does not answer.
  std::vector<int> WorkerPids(const std::string& run);
  // 0 before it serves.
  int CoordinatorPid(const std::string& run);
  nlohmann::json Summary(const std::string& run);
  // Updates from which the run's stages were started, in order.
  std::vector<int64_t> StartsOf(const std::string& run);
  // `checkpoints`: their folder, when it is not the run's own.
  Numbers NumbersOf(const std::string& run, std::string checkpoints = "");

  const TempDir folder_;
};

}  // namespace gimbal::test_support

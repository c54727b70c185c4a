// Adaptive refresh plans, many between two checkpoints, in runs whose
// coordinator is killed, hangs, is asked for checkpoints and leaves minibatches
// out.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::ReadText;

class Adaptive : public test_support::TrainFixture {
 protected:
  std::vector<std::string> Arguments(const std::string& workers,
                                     const std::string& interval) {
    return {"--workers", workers,
            "--set",     "run.steps=400",
            "--set",     "checkpoint.every=200",
            "--set",     "optimizer.name=basis_rotation",
            "--set",     "optimizer.rotation.policy=adaptive",
            "--set",     "optimizer.rotation.period=3",
            "--set",     "optimizer.rotation.max_period=" + interval,
            "--set",     "optimizer.rotation.adapt_every=" + interval};
  }

  void ExpectTheSame(Command& command, const std::string& run,
                     const std::string& other) {
    const CommandResult result = command.Wait(seconds(60));
    ASSERT_EQ(result.exit_code, 0) << result.output << Logs(run);
    EXPECT_EQ(Difference(NumbersOf(run), NumbersOf(other)), "");
  }
};

TEST_F(Adaptive, PlansAreTheSameWhenTheCoordinatorIsKilledOrHangs) {
  MustTrain("undisturbed", Arguments("1", "10"));
  Command command(TrainArguments("disturbed", Arguments("4", "10")));
  for (const int rows : {130, 330}) {
    ASSERT_TRUE(WaitForRows(command, "disturbed", rows));
    ASSERT_EQ(kill(CoordinatorPid("disturbed"), SIGKILL), 0);
    // When all that is granted is done, all reports come at once.
    ASSERT_TRUE(WaitForRows(command, "disturbed", rows + 30));
    const int coordinator = CoordinatorPid("disturbed");
    ASSERT_GT(coordinator, 0);
    kill(coordinator, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(300));
    kill(coordinator, SIGCONT);
  }
  ExpectTheSame(command, "disturbed", "undisturbed");
}

TEST_F(Adaptive, PlansAreTheSameWhateverIsAskedForAndLeftOut) {
  setenv("GIMBAL_POISON", "2:139", 1);
  std::vector<std::string> alone = Arguments("1", "70");
  std::vector<std::string> four = Arguments("4", "70");
  for (auto* arguments : {&alone, &four}) {
    arguments->insert(arguments->end(), {"--set", "guards.nan=skip"});
  }
  MustTrain("undisturbed", alone);
  Command command(TrainArguments("asked", four));
  ASSERT_TRUE(WaitForRows(command, "asked", 20));
  for (int i = 0; i < 60 && WaitForRows(command, "asked", 5 * i); ++i) {
    test_support::Run({"gimbal", "checkpoint", "--run-dir", folder_ / "asked"});
  }
  ExpectTheSame(command, "asked", "undisturbed");
  unsetenv("GIMBAL_POISON");
  EXPECT_GT(CountOf("left_out", ReadText(folder_ / "asked/metrics.jsonl")), 0);
}

}  // namespace
}  // namespace gimbal

// Checkpoints through the coordinator: workers that share no file system with
// it, and that die, train as if they did.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/environment.h"
#include "tests/support/free_port.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::FreePort;
using test_support::ReadText;
using test_support::SlowStages;

// Programs that see an empty folder, of their own, in the place of another.
std::vector<std::string> Without(const std::string& folder) {
  return {"/usr/bin/unshare",
          "--user",
          "--map-root-user",
          "--mount",
          "/bin/sh",
          "-c",
          "mount -t tmpfs none \"$0\" && exec \"$@\"",
          folder};
}

class CoordinatorStore : public test_support::TrainFixture {
 protected:
  std::unique_ptr<Command> StartCoordinator(const std::string& config,
                                            const std::string& listen,
                                            bool resume) {
    std::vector<std::string> argv = {
        "gimbal-coordinator", "--config", config, "--run-dir",
        folder_ / "streamed", "--listen", listen};
    if (resume) argv.push_back("--resume");
    return std::make_unique<Command>(argv);
  }

  std::unique_ptr<Command> StartWorker(const std::string& coordinator) {
    std::vector<std::string> argv = Without(folder_ / "streamed");
    argv.insert(argv.end(), {test_support::BinaryPath("gimbal-worker"),
                             "--coordinator", coordinator});
    return std::make_unique<Command>(argv);
  }
};

TEST_F(CoordinatorStore, WorkersNeedNoFolderOfTheRun) {
  std::filesystem::create_directory(folder_ / "streamed");
  std::vector<std::string> probe = Without(folder_ / "streamed");
  probe.push_back("/bin/true");
  if (test_support::Run(probe).exit_code != 0) {
    GTEST_SKIP() << "no mount namespaces here: "
                 << test_support::Run(probe).output;
  }
  MustTrain("undisturbed",
            {"--workers", "1", "--set", "run.steps=3000", "--set",
             "checkpoint.every=100", "--set", "checkpoint.store=coordinator"});
  const std::string config = folder_ / "undisturbed/config.yaml";
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  auto coordinator = StartCoordinator(config, address, false);
  std::vector<std::unique_ptr<Command>> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(StartWorker(address));
  // A worker whose stage starts from what the coordinator sends, then the
  // coordinator itself, then both.
  ASSERT_TRUE(WaitForRows(*coordinator, "streamed", 250));
  kill(workers[1]->pid(), SIGKILL);
  workers[1] = StartWorker(address);
  ASSERT_TRUE(WaitForRows(*coordinator, "streamed", 600));
  kill(coordinator->pid(), SIGKILL);
  coordinator->Wait(seconds(10));
  coordinator = StartCoordinator(config, address, true);
  ASSERT_TRUE(WaitForRows(*coordinator, "streamed", 1200));
  kill(workers[0]->pid(), SIGKILL);
  kill(workers[3]->pid(), SIGKILL);
  kill(coordinator->pid(), SIGKILL);
  coordinator->Wait(seconds(10));
  coordinator = StartCoordinator(config, address, true);
  workers[0] = StartWorker(address);
  workers[3] = StartWorker(address);
  // What a worker sees of the run's folder is its own, and stays empty.
  const std::string view = "/proc/" + std::to_string(workers[2]->pid()) +
                           "/root" + (folder_ / "streamed");
  EXPECT_TRUE(std::filesystem::is_empty(view)) << view;
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "streamed"));
  const CommandResult result = coordinator->Wait(seconds(240));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Difference(NumbersOf("streamed"), NumbersOf("undisturbed")), "");
  const CommandResult verified = test_support::Run(
      {"gimbal", "checkpoint", "verify", "--run-dir", folder_ / "streamed"});
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           folder_ / "streamed/checkpoints")) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

// Stopped, and gone on with by workers that share the folder after all: it is
// the same run.
TEST_F(CoordinatorStore, TheStoreMayChangeInTheMiddle) {
  MustTrain("undisturbed", {"--workers", "1", "--set", "run.steps=1500"});
  {
    const SlowStages pace;
    Command command(
        TrainArguments("changed", {"--workers", "4", "--set", "run.steps=1500",
                                   "--set", "checkpoint.store=coordinator"}));
    ASSERT_TRUE(WaitForRows(command, "changed", 100));
    command.Signal(SIGINT);
    ASSERT_EQ(command.Wait(seconds(120)).exit_code, 4);
  }
  const CommandResult resumed = test_support::Run(
      {"gimbal", "train", "--run-dir", folder_ / "changed", "--resume",
       "--workers", "2", "--set", "checkpoint.store=shared"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(Difference(NumbersOf("changed"), NumbersOf("undisturbed")), "");
}

}  // namespace
}  // namespace gimbal

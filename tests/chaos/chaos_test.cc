// Runs in which processes die, hang and come back at random moments, and whose
// numbers are those of the undisturbed run all the same.
//
//   GIMBAL_CHAOS_SEEDS=40 ctest --test-dir build/dev -R chaos   (default: 8)
//   GIMBAL_CHAOS_SEED=17 ctest --test-dir build/dev -R chaos    one of them
//   again
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::ReadText;

constexpr int kUpdates = 300;
constexpr int kLastFault = 250;
// The last checkpoint has to find its disk.
constexpr int kLastFullDisk = 120;

// Every schedule and optimizer, and mitigations with state of their own.
const std::vector<std::vector<std::string>> kMethods = {
    {"optimizer.name=basis_rotation"},
    {"optimizer.name=adamw", "pipeline.stash=none"},
    {"optimizer.name=muon", "staleness.mitigation=[error_feedback]"},
    {"optimizer.name=basis_rotation", "optimizer.momentum=nesterov",
     "staleness.mitigation=[lr_linear, error_feedback]"},
    {"optimizer.name=nadamw", "pipeline.schedule=2bw", "batch.accumulate=4"},
    {"optimizer.name=sgd", "batch.accumulate=3"},
    {"optimizer.name=basis_rotation", "pipeline.schedule=1f1b",
     "batch.accumulate=4"},
    {"optimizer.name=adamw", "pipeline.schedule=gpipe", "batch.accumulate=2"},
    {"optimizer.name=basis_rotation", "optimizer.rotation.source=first",
     "pipeline.stash=none"},
    {"optimizer.name=adamw", "staleness.mitigation=[weight_prediction]"},
    {"optimizer.name=basis_rotation", "optimizer.rotation.policy=adaptive"},
};

enum class Fault {
  kKillWorker,
  kKillTwo,
  kKillCoordinator,
  kKillCoordinatorAndWorker,
  kStopWorker,          // for longer than its lease
  kKillDuringRecovery,  // another one, moments later
  kKillDuringSave,
  kCutLink,   // by the kernel; both ends live on
  kFillDisk,  // of the checkpoints, for a moment
  kCount,
};

const char* Name(Fault fault) {
  switch (fault) {
    case Fault::kKillWorker:
      return "a worker is killed";
    case Fault::kKillTwo:
      return "two workers are killed";
    case Fault::kKillCoordinator:
      return "the coordinator is killed";
    case Fault::kKillCoordinatorAndWorker:
      return "the coordinator and a worker are killed";
    case Fault::kStopWorker:
      return "a worker hangs";
    case Fault::kKillDuringRecovery:
      return "a worker is killed, and another one moments later";
    case Fault::kKillDuringSave:
      return "a worker is killed while a checkpoint is written";
    case Fault::kCutLink:
      return "a link between two workers is cut";
    case Fault::kFillDisk:
      return "the disk of the checkpoints is full for a moment";
    case Fault::kCount:
      break;
  }
  return "?";
}

// A port of loopback that was free a moment ago.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class Chaos : public test_support::TrainFixture {
 protected:
  // Pids of the workers, or nothing when the coordinator does not answer.
  std::vector<int> WorkerPids(const std::string& run) {
    const CommandResult status = test_support::Run(
        {"gimbal", "status", "--run-dir", folder_ / run, "--json"});
    std::vector<int> pids;
    if (status.exit_code != 0) return pids;
    const json view = json::parse(status.output, nullptr, false);
    if (view.is_discarded()) return pids;
    for (const json& worker : view.at("workers")) {
      pids.push_back(worker.at("pid"));
    }
    return pids;
  }

  int CoordinatorPid(const std::string& run) {
    const json file = json::parse(
        ReadText(folder_ / (run + "/coordinator.json")), nullptr, false);
    return file.is_object() ? file.value("pid", 0) : 0;
  }

  void Kill(const std::string& run, std::mt19937& random, int workers) {
    std::vector<int> pids = WorkerPids(run);
    std::shuffle(pids.begin(), pids.end(), random);
    for (int i = 0; i < std::min<int>(workers, pids.size()); ++i) {
      kill(pids[i], SIGKILL);
    }
  }

  void KillCoordinator(const std::string& run) {
    if (const int pid = CoordinatorPid(run); pid > 0) kill(pid, SIGKILL);
  }

  static bool Saving(const std::string& checkpoints) {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(checkpoints, error)) {
      if (entry.is_directory(error) &&
          !std::filesystem::exists(entry.path() / "COMMIT", error)) {
        return true;
      }
    }
    return false;
  }

  // Kills the connection of some edge. Needs root and a kernel that can; false
  // when nothing was cut.
  bool CutLink(const std::string& run, std::mt19937& random) {
    const std::vector<int> pids = WorkerPids(run);
    std::map<std::string, std::string> peers;  // of the workers' sockets
    std::istringstream sockets(
        test_support::Run({"/usr/bin/ss", "-tnpH", "state", "established"})
            .output);
    for (std::string line; std::getline(sockets, line);) {
      std::istringstream fields(line);
      std::string queue, local, peer;
      fields >> queue >> queue >> local >> peer;
      for (const int pid : pids) {
        if (CountOf("pid=" + std::to_string(pid) + ",", line) > 0) {
          peers[local] = peer;
        }
      }
    }
    std::vector<std::string> links;
    for (const auto& [local, peer] : peers) {
      if (peers.contains(peer)) links.push_back(local);
    }
    if (links.empty()) return false;
    const std::string link = links[random() % links.size()];
    return test_support::Run({"/usr/bin/ss", "-K", "src", link}).exit_code == 0;
  }

  // A small disk of their own for the checkpoints of a run; "" when this
  // process may not mount one.
  std::string MountSmallDisk(const std::string& run) {
    const std::string path = folder_ / (run + "-checkpoints");
    std::filesystem::create_directory(path);
    return mount("none", path.c_str(), "tmpfs", 0, "size=8m") == 0 ? path : "";
  }

  void FillDisk(const std::string& disk) {
    if (disk.empty()) return;
    const std::string path = disk + "/filler";
    std::ofstream file(path, std::ios::binary);
    const std::vector<char> block(4096);
    while (file.write(block.data(), 4096).flush()) {
    }
    file.close();
    std::this_thread::sleep_for(milliseconds(150));
    std::filesystem::remove(path);
  }

  void Do(Fault fault, const std::string& run, const std::string& disk,
          std::mt19937& random) {
    switch (fault) {
      case Fault::kKillWorker:
        Kill(run, random, 1);
        break;
      case Fault::kKillTwo:
        Kill(run, random, 2);
        break;
      case Fault::kKillCoordinator:
        KillCoordinator(run);
        break;
      case Fault::kKillCoordinatorAndWorker: {
        const std::vector<int> pids = WorkerPids(run);
        KillCoordinator(run);
        if (!pids.empty()) kill(pids[random() % pids.size()], SIGKILL);
        break;
      }
      case Fault::kStopWorker: {
        const std::vector<int> pids = WorkerPids(run);
        if (!pids.empty()) kill(pids[random() % pids.size()], SIGSTOP);
        break;
      }
      case Fault::kKillDuringRecovery:
        Kill(run, random, 1);
        std::this_thread::sleep_for(milliseconds(random() % 800));
        Kill(run, random, 1);
        break;
      case Fault::kKillDuringSave:
        for (int i = 0;
             i < 2000 &&
             !Saving(disk.empty() ? folder_ / (run + "/checkpoints") : disk);
             ++i) {
          std::this_thread::sleep_for(milliseconds(1));
        }
        Kill(run, random, 1);
        break;
      case Fault::kCutLink:
        if (!CutLink(run, random)) std::printf("  (no link was cut)\n");
        break;
      case Fault::kFillDisk:
        FillDisk(disk);
        break;
      case Fault::kCount:
        break;
    }
  }
};

// Without a launcher: a worker dies and stays away, its stage moves; another
// one comes later, and the stages spread out again.
TEST_F(Chaos, StagesMoveWithTheNumberOfWorkers) {
  const std::vector<std::string> longer = {"--set", "run.steps=4000", "--set",
                                           "checkpoint.every=100"};
  std::vector<std::string> alone = longer;
  alone.insert(alone.end(), {"--workers", "1"});
  MustTrain("undisturbed", alone);
  std::string config = ReadText(folder_ / "undisturbed/config.yaml");
  config = std::regex_replace(config, std::regex("min_workers: \\d+"),
                              "min_workers: 2");
  config = std::regex_replace(config, std::regex("shrink_after: \\w+"),
                              "shrink_after: 1s");
  std::ofstream(folder_ / "shrinking.yaml") << config;
  Command coordinator({"gimbal-coordinator", "--config",
                       folder_ / "shrinking.yaml", "--run-dir",
                       folder_ / "moved"});
  while (CoordinatorPid("moved") == 0 && coordinator.Running()) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  const std::string address =
      json::parse(ReadText(folder_ / "moved/coordinator.json")).at("address");
  std::vector<std::unique_ptr<Command>> workers;
  const auto start_worker = [&] {
    workers.push_back(std::make_unique<Command>(
        std::vector<std::string>{"gimbal-worker", "--coordinator", address}));
  };
  for (int i = 0; i < 4; ++i) start_worker();
  ASSERT_TRUE(WaitForRows(coordinator, "moved", 150));
  kill(workers[1]->pid(), SIGKILL);
  ASSERT_TRUE(WaitForRows(coordinator, "moved", 1500));
  start_worker();
  const CommandResult result = coordinator.Wait(std::chrono::seconds(120));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Difference(NumbersOf("moved"), NumbersOf("undisturbed")), "");
  const std::string events = ReadText(folder_ / "moved/events.jsonl");
  EXPECT_EQ(CountOf("stages spread out again", events), 1) << events;
  EXPECT_EQ(CountOf("every stage goes back", events), 0) << events;
}

// Whoever starts a job decides no order.
TEST_F(Chaos, WorkersMayComeLongBeforeTheCoordinator) {
  MustTrain("undisturbed", {"--workers", "1"});
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  std::vector<std::unique_ptr<Command>> workers;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(std::make_unique<Command>(
        std::vector<std::string>{"gimbal-worker", "--coordinator", address}));
  }
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (const auto& worker : workers) EXPECT_TRUE(worker->Running());
  Command coordinator({"gimbal-coordinator", "--config",
                       folder_ / "undisturbed/config.yaml", "--run-dir",
                       folder_ / "late", "--listen", address});
  const CommandResult result = coordinator.Wait(std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->Wait(std::chrono::seconds(20)).exit_code, 0);
  }
  EXPECT_EQ(Difference(NumbersOf("late"), NumbersOf("undisturbed")), "");
}

std::vector<unsigned> Seeds() {
  if (const char* seed = std::getenv("GIMBAL_CHAOS_SEED")) {
    return {static_cast<unsigned>(std::atoi(seed))};
  }
  const char* count = std::getenv("GIMBAL_CHAOS_SEEDS");
  std::vector<unsigned> seeds(
      static_cast<size_t>(count == nullptr ? 8 : std::atoi(count)));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<unsigned>(i);
  return seeds;
}

TEST_F(Chaos, ChangesNoNumber) {
  std::map<size_t, std::string> undisturbed;  // by method
  for (const unsigned seed : Seeds()) {
    std::mt19937 random(seed);
    const size_t method = seed % kMethods.size();
    std::vector<std::string> arguments = {
        "--workers", "4",
        "--set",     "cluster.restart_budget=20",
        "--set",     "run.steps=" + std::to_string(kUpdates),
        "--set",     "checkpoint.every=" + std::to_string(20 + random() % 60)};
    std::vector<std::string> alone = {"--workers", "1", "--set",
                                      "run.steps=" + std::to_string(kUpdates)};
    for (const std::string& setting : kMethods[method]) {
      for (auto* argv : {&arguments, &alone}) {
        argv->insert(argv->end(), {"--set", setting});
      }
    }
    const std::string run = "seed-" + std::to_string(seed);
    std::printf("%s (again: GIMBAL_CHAOS_SEED=%u)\n", run.c_str(), seed);
    if (!undisturbed.contains(method)) {
      undisturbed[method] = "undisturbed-" + std::to_string(method);
      MustTrain(undisturbed[method], alone);
    }
    const std::string disk = MountSmallDisk(run);
    if (disk.empty()) std::printf("  (no disk can be filled)\n");
    if (!disk.empty()) {
      arguments.insert(arguments.end(), {"--set", "checkpoint.dir=" + disk});
    }
    Command command(TrainArguments(run, arguments));
    const int faults = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < faults; ++i) {
      const auto rows = static_cast<int64_t>(kLastFault * i / faults +
                                             random() % (kLastFault / faults));
      auto fault =
          static_cast<Fault>(random() % static_cast<unsigned>(Fault::kCount));
      if (fault == Fault::kFillDisk && rows > kLastFullDisk) {
        fault = Fault::kCutLink;
      }
      const auto pause = milliseconds(random() % 50);
      if (!WaitForRows(command, run, rows)) break;
      std::this_thread::sleep_for(pause);
      std::printf("  after update %ld: %s\n", rows, Name(fault));
      Do(fault, run, disk, random);
    }
    const CommandResult result = command.Wait(std::chrono::seconds(120));
    ASSERT_EQ(result.exit_code, 0) << run << "\n" << result.output << Logs(run);
    // Checkpoints at other updates are no difference, their last one is.
    ASSERT_EQ(Difference(NumbersOf(run, disk), NumbersOf(undisturbed[method])),
              "")
        << run << "\n"
        << ReadText(folder_ / (run + "/events.jsonl"));
    if (!disk.empty()) umount2(disk.c_str(), MNT_DETACH);
    const json summary =
        json::parse(ReadText(folder_ / (run + "/summary.json")));
    for (const json& recovery : summary.at("recoveries")) {
      std::printf("  %s\n", recovery.dump().c_str());
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace gimbal

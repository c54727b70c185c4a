// Runs in which processes die, hang and come back at random moments, and whose
// numbers are those of the undisturbed run all the same.
//
//   GIMBAL_CHAOS_SEEDS=40 ctest --test-dir build/dev -R chaos   (default: 8)
//   GIMBAL_CHAOS_SEED=17 ctest --test-dir build/dev -R chaos    one of them
//   again
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
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

constexpr char kIp[] = "/usr/sbin/ip";
constexpr char kTc[] = "/usr/sbin/tc";

// Every schedule and optimizer, and mitigations with state of their own. The
// gradients of the guarded ones are poisoned.
constexpr char kPoison[] = "2:87,0:213";
const std::vector<std::vector<std::string>> kMethods = {
    {"optimizer.name=basis_rotation"},
    {"optimizer.name=basis_rotation", "guards.nan=skip"},
    {"optimizer.name=adamw", "guards.rollback_updates=70",
     "guards.nan=rollback"},
    {"optimizer.name=adamw", "pipeline.stash=none"},
    {"optimizer.name=muon", "staleness.mitigation=[error_feedback]"},
    {"optimizer.name=basis_rotation", "optimizer.momentum=nesterov",
     "staleness.mitigation=[lr_linear, error_feedback]"},
    {"optimizer.name=nadamw", "pipeline.schedule=2bw", "batch.accumulate=4"},
    {"optimizer.name=sgd", "batch.accumulate=3"},
    {"optimizer.name=adamw", "precision.wire=bf16", "pipeline.stash=none"},
    {"optimizer.name=basis_rotation", "precision.wire=int8"},
    {"optimizer.name=basis_rotation", "pipeline.schedule=1f1b",
     "batch.accumulate=4"},
    {"optimizer.name=adamw", "pipeline.schedule=gpipe", "batch.accumulate=2"},
    {"optimizer.name=basis_rotation", "optimizer.rotation.source=first",
     "pipeline.stash=none"},
    {"optimizer.name=adamw", "staleness.mitigation=[weight_prediction]"},
    // Several plans between two checkpoints.
    {"optimizer.name=basis_rotation", "optimizer.rotation.period=3",
     "optimizer.rotation.max_period=10", "optimizer.rotation.adapt_every=10",
     "optimizer.rotation.policy=adaptive"},
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
  kSlowNetwork,
  kNetworkDown,  // for a moment, or for longer than the lease
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
    case Fault::kSlowNetwork:
      return "the network is slow";
    case Fault::kNetworkDown:
      return "the network is down";
    case Fault::kCount:
      break;
  }
  return "?";
}

class Chaos : public test_support::TrainFixture {
 protected:
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
    return mount("none", path.c_str(), "tmpfs", 0, "size=32m") == 0 ? path : "";
  }

  // A network of the test's own, of which it can be the weather. False when
  // this process may not make one.
  static bool OwnNetwork() {
    static const bool own =
        unshare(CLONE_NEWNET) == 0 &&
        test_support::Run({kIp, "link", "set", "lo", "up"}).exit_code == 0;
    return own;
  }

  void SlowNetwork(std::mt19937& random) {
    const auto rate = std::to_string(1 + random() % 8) + "mbit";
    test_support::Run({kTc, "qdisc", "add", "dev", "lo", "root", "tbf", "rate",
                       rate, "burst", "64kb", "latency", "2s"});
    std::this_thread::sleep_for(milliseconds(500 + random() % 1500));
    test_support::Run({kTc, "qdisc", "del", "dev", "lo", "root"});
  }

  void NetworkDown(std::mt19937& random) {
    const auto duration =
        milliseconds(random() % 3 == 0 ? 4000 : 100 + random() % 900);
    test_support::Run({kIp, "link", "set", "lo", "down"});
    std::this_thread::sleep_for(duration);
    test_support::Run({kIp, "link", "set", "lo", "up"});
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
      case Fault::kSlowNetwork:
        SlowNetwork(random);
        break;
      case Fault::kNetworkDown:
        NetworkDown(random);
        break;
      case Fault::kCount:
        break;
    }
  }
};

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
  if (!OwnNetwork()) std::printf("no network of its own: it stays up\n");
  std::map<size_t, std::string> undisturbed;  // by method
  for (const unsigned seed : Seeds()) {
    std::mt19937 random(seed);
    const size_t method = seed % kMethods.size();
    const bool guarded = kMethods[method].back().starts_with("guards.nan");
    guarded ? setenv("GIMBAL_POISON", kPoison, 1) : unsetenv("GIMBAL_POISON");
    std::vector<std::string> arguments = {
        "--workers", "4",
        "--set",     "cluster.restart_budget=20",
        "--set",     "run.steps=" + std::to_string(kUpdates),
        "--set",     "checkpoint.every=" + std::to_string(20 + random() % 60)};
    // Every other run keeps snapshots in memory, too.
    if (seed % 2 == 1) {
      arguments.insert(arguments.end(),
                       {"--set", "cluster.peer_snapshot_every=" +
                                     std::to_string(3 + seed % 29)});
    }
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
      const std::string metrics =
          ReadText(folder_ / (undisturbed[method] + "/metrics.jsonl"));
      EXPECT_EQ(CountOf("left_out", metrics) > 0, guarded) << metrics;
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
      if (fault >= Fault::kSlowNetwork && !OwnNetwork()) {
        fault = Fault::kKillWorker;
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

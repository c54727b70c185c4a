// A run across separate hosts, with TLS and a token, while the network between
// them fails in every way it can: the numbers are those of one process on one
// machine.
//
//   GIMBAL_CHAOS_SEEDS=10 ctest --test-dir build/dev -R hosts   (default: 1)
//   GIMBAL_CHAOS_SEED=3 ctest --test-dir build/dev -R hosts     one of them
//   again
#include "tests/support/hosts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "tests/support/test_certificates.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::Hosts;
using test_support::ReadText;
using test_support::TestCertificates;

constexpr int kHosts = 4;
constexpr int kUpdates = 300;
// The coordinator is on host 0, worker i on host i.
constexpr char kCoordinatorPort[] = ":7000";

struct Fault {
  const char* name;
  std::function<void(const Hosts&, std::mt19937&)> begin;
  milliseconds duration;
  // It lasts until the coordinator has said so once more, however slow the
  // machine is.
  std::string told;
};

int AnyHost(std::mt19937& random) {
  return static_cast<int>(random() % kHosts);
}

// Two hosts whose workers are neighbours in the pipeline.
std::pair<int, int> Neighbours(std::mt19937& random) {
  const int host = static_cast<int>(random() % (kHosts - 1));
  return {host, host + 1};
}

std::vector<Fault> AllFaults() {
  return {
      {"the link between two hosts is cut for less than the lease",
       [](const Hosts& hosts, std::mt19937& random) {
         const auto [a, b] = Neighbours(random);
         // Host 0 has the coordinator, too: that is the next but one.
         hosts.Cut(std::max(a, 1), std::max(b, 2));
       },
       milliseconds(1500), ""},
      {"the link between two hosts is cut for longer than the lease",
       [](const Hosts& hosts, std::mt19937& random) {
         const int host = 1 + static_cast<int>(random() % (kHosts - 2));
         hosts.Cut(host, host + 1);
       },
       milliseconds(6000), ""},
      {"connections between two hosts are reset",
       [](const Hosts& hosts, std::mt19937& random) {
         const auto [a, b] = Neighbours(random);
         hosts.Refuse(a, b);
       },
       milliseconds(1000), "run is RECOVERING"},
      {"packets are lost",
       [](const Hosts& hosts, std::mt19937& random) {
         hosts.Lose(AnyHost(random), 0.2);
       },
       milliseconds(3000), ""},
      {"a host is slow",
       [](const Hosts& hosts, std::mt19937& random) {
         hosts.SlowDown(AnyHost(random), "1mbit");
       },
       milliseconds(3000), ""},
      {"a host is cut off for longer than the lease",
       [](const Hosts& hosts, std::mt19937& random) {
         hosts.CutOff(1 + static_cast<int>(random() % (kHosts - 1)));
       },
       milliseconds(0), "it was silent for longer than cluster.lease"},
  };
}

class HostsTest : public test_support::TrainFixture {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) {
      GTEST_SKIP() << "this process may not make network namespaces (root, "
                      "iproute2, iptables)";
    }
    hosts_ = std::make_unique<Hosts>(kHosts);
    std::string config = ReadText(folder_ / "config.yaml");
    config.replace(config.find("steps: 40"), 9,
                   "steps: " + std::to_string(kUpdates));
    std::ofstream(folder_ / "config.yaml")
        << config << "cluster: {restart_budget: 50, peer_snapshot_every: 20}\n";
    std::ofstream(folder_ / "token") << std::string(32, 't') << "\n";
  }

  std::vector<std::string> Security(int host) const {
    const rpc::SecurityFiles files = certificates_.Make(hosts_->address(host));
    return {"--tls-ca",  files.ca,  "--tls-cert",   files.cert,
            "--tls-key", files.key, "--token-file", folder_ / "token"};
  }

  std::unique_ptr<Command> Start(int host, std::vector<std::string> argv) {
    const std::vector<std::string> security = Security(host);
    argv.insert(argv.end(), security.begin(), security.end());
    return std::make_unique<Command>(hosts_->On(host, argv));
  }

  std::unique_ptr<Command> StartCoordinator(const std::string& run) {
    return Start(0, {"gimbal-coordinator", "--config", folder_ / "config.yaml",
                     "--run-dir", folder_ / run, "--listen",
                     hosts_->address(0) + kCoordinatorPort});
  }

  std::unique_ptr<Command> StartWorker(int host) {
    return Start(host, {"gimbal-worker", "--coordinator",
                        hosts_->address(0) + kCoordinatorPort, "--name",
                        "worker-" + std::to_string(host), "--listen",
                        "0.0.0.0:0", "--advertise", hosts_->address(host)});
  }

  // How often the coordinator has said this.
  int64_t Told(const std::string& run, const std::string& what) {
    if (what.empty()) return 0;
    return CountOf(what, ReadText(folder_ / (run + "/events.jsonl")));
  }

  std::unique_ptr<Hosts> hosts_;
  const TestCertificates certificates_{folder_ / "certs"};
};

std::vector<unsigned> Seeds() {
  if (const char* seed = std::getenv("GIMBAL_CHAOS_SEED")) {
    return {static_cast<unsigned>(std::atoi(seed))};
  }
  const char* count = std::getenv("GIMBAL_CHAOS_SEEDS");
  std::vector<unsigned> seeds(
      static_cast<size_t>(count == nullptr ? 1 : std::atoi(count)));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<unsigned>(i);
  return seeds;
}

TEST_F(HostsTest, TheNetworkChangesNoNumber) {
  MustTrain("alone", {"--workers", "1"});
  for (const unsigned seed : Seeds()) {
    std::printf("seed %u (again: GIMBAL_CHAOS_SEED=%u)\n", seed, seed);
    std::mt19937 random(seed);
    const std::string run = "seed-" + std::to_string(seed);
    auto coordinator = StartCoordinator(run);
    std::vector<std::unique_ptr<Command>> workers;
    for (int host = 0; host < kHosts; ++host) {
      workers.push_back(StartWorker(host));
    }
    std::vector<Fault> faults = AllFaults();
    std::shuffle(faults.begin(), faults.end(), random);
    const int apart = (kUpdates - 60) / static_cast<int>(faults.size());
    for (size_t i = 0; i < faults.size(); ++i) {
      const int64_t rows = 20 + static_cast<int64_t>(i) * apart;
      ASSERT_TRUE(WaitForRows(*coordinator, run, rows))
          << coordinator->Wait(seconds(0)).output;
      std::printf("  after update %ld: %s\n", rows, faults[i].name);
      std::fflush(stdout);
      const int64_t before = Told(run, faults[i].told);
      faults[i].begin(*hosts_, random);
      std::this_thread::sleep_for(faults[i].duration);
      // Not for ever: it may have been told of the fault before.
      const auto deadline = std::chrono::steady_clock::now() + seconds(60);
      while (!faults[i].told.empty() && Told(run, faults[i].told) == before &&
             std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(20));
      }
      hosts_->Heal();
    }
    const CommandResult result = coordinator->Wait(seconds(180));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    for (auto& worker : workers) {
      const CommandResult end = worker->Wait(seconds(60));
      EXPECT_EQ(end.exit_code, 0) << end.output;
    }
    EXPECT_EQ(Difference(NumbersOf(run), NumbersOf("alone")), "")
        << ReadText(folder_ / (run + "/events.jsonl"));
    for (const Fault& fault : faults) {
      EXPECT_TRUE(fault.told.empty() || Told(run, fault.told) > 0)
          << fault.name;
    }
    const json summary = Summary(run);
    for (const json& recovery : summary.at("recoveries")) {
      std::printf("  %s\n", recovery.dump().c_str());
    }
  }
}

}  // namespace
}  // namespace gimbal

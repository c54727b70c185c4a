#include "tests/support/hosts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "tests/support/command.h"

namespace gimbal::test_support {
namespace {

constexpr char kIp[] = "/usr/sbin/ip";
constexpr char kIptables[] = "/usr/sbin/iptables";
constexpr char kTc[] = "/usr/sbin/tc";
constexpr char kBridge[] = "gimbal-bridge";

void Must(const std::vector<std::string>& argv) {
  const CommandResult result = Run(argv);
  std::string line;
  for (const std::string& word : argv) line += word + " ";
  EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.output;
}

// The bridge stands in a network of this process's own, made once.
bool OwnNetwork() {
  static const bool own = unshare(CLONE_NEWNET) == 0;
  return own;
}

}  // namespace

bool Hosts::Possible() {
  if (access(kIp, X_OK) != 0 || access(kIptables, X_OK) != 0 ||
      access(kTc, X_OK) != 0 || !OwnNetwork()) {
    return false;
  }
  const std::string name = "gimbal-probe-" + std::to_string(getpid());
  const bool made = Run({kIp, "netns", "add", name}).exit_code == 0;
  const bool rules =
      made &&
      Run({kIp, "netns", "exec", name, kIptables, "-L", "-n"}).exit_code == 0;
  if (made) Run({kIp, "netns", "delete", name});
  return rules;
}

Hosts::Hosts(int count) : count_(count) {
  Must({kIp, "link", "set", "lo", "up"});
  Must({kIp, "link", "add", kBridge, "type", "bridge"});
  Must({kIp, "link", "set", kBridge, "up"});
  for (int host = 0; host < count_; ++host) {
    const std::string outside = "host" + std::to_string(host);
    Must({kIp, "netns", "add", name(host)});
    Must({kIp, "link", "add", outside, "type", "veth", "peer", "name", "eth0",
          "netns", name(host)});
    Must({kIp, "link", "set", outside, "master", kBridge, "up"});
    Must({kIp, "-n", name(host), "link", "set", "lo", "up"});
    Must({kIp, "-n", name(host), "address", "add", address(host) + "/24", "dev",
          "eth0"});
    Must({kIp, "-n", name(host), "link", "set", "eth0", "up"});
  }
}

Hosts::~Hosts() {
  for (int host = 0; host < count_; ++host) {
    Run({kIp, "netns", "delete", name(host)});
  }
  Run({kIp, "link", "delete", kBridge});
}

std::string Hosts::name(int host) const {
  return "gimbal-" + std::to_string(getpid()) + "-" + std::to_string(host);
}

std::string Hosts::address(int host) const {
  return "10.77.0." + std::to_string(host + 1);
}

std::vector<std::string> Hosts::On(int host,
                                   std::vector<std::string> argv) const {
  if (argv[0].starts_with("gimbal")) argv[0] = BinaryPath(argv[0]);
  argv.insert(argv.begin(), {kIp, "netns", "exec", name(host)});
  return argv;
}

void Hosts::Rule(int host, std::vector<std::string> rule) const {
  rule.insert(rule.begin(), {kIptables, "-A", "INPUT"});
  Must(On(host, rule));
}

void Hosts::Cut(int a, int b) const {
  Rule(a, {"-s", address(b), "-j", "DROP"});
  Rule(b, {"-s", address(a), "-j", "DROP"});
}

void Hosts::Refuse(int a, int b) const {
  for (const auto& [to, from] : {std::pair(a, b), std::pair(b, a)}) {
    Rule(to, {"-s", address(from), "-p", "tcp", "-j", "REJECT", "--reject-with",
              "tcp-reset"});
  }
}

void Hosts::CutOff(int host) const {
  Rule(host, {"-i", "eth0", "-j", "DROP"});
  Must(On(host, {kIptables, "-A", "OUTPUT", "-o", "eth0", "-j", "DROP"}));
}

void Hosts::Lose(int host, double share) const {
  Rule(host, {"-i", "eth0", "-m", "statistic", "--mode", "random",
              "--probability", std::to_string(share), "-j", "DROP"});
}

void Hosts::SlowDown(int host, const std::string& rate) const {
  Must(On(host, {kTc, "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate",
                 rate, "burst", "64kb", "latency", "2s"}));
}

void Hosts::Heal() const {
  for (int host = 0; host < count_; ++host) {
    Must(On(host, {kIptables, "-F"}));
    Run(On(host, {kTc, "qdisc", "delete", "dev", "eth0", "root"}));
  }
}

}  // namespace gimbal::test_support

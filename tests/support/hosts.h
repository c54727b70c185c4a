// Machines of a test's own: network namespaces that are joined by a bridge,
// each with an address, between which packets can be lost, late or cut off.
//
//   if (!Hosts::Possible()) GTEST_SKIP() << ...;
//   Hosts hosts(4);
//   Command worker(hosts.On(1, {"gimbal-worker", ...}));
//   hosts.Cut(1, 2); ... hosts.Heal();
#pragma once

#include <string>
#include <vector>

namespace gimbal::test_support {

class Hosts {
 public:
  // Whether this process may make network namespaces (root, iproute2,
  // iptables).
  static bool Possible();

  // Host 0 to count - 1; names are this process's own.
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  std::string address(int host) const;
  // The command line that runs `argv` on a host.
  std::vector<std::string> On(int host, std::vector<std::string> argv) const;

  // Until Heal, and on top of what was done before: packets between two hosts
  // vanish, or are refused so that connections break at once;
  void Cut(int a, int b) const;
  void Refuse(int a, int b) const;
  // a host is cut off from all others;
  void CutOff(int host) const;
  // a share of the packets to a host vanishes;
  void Lose(int host, double share) const;
  // a host sends so slowly that its packets queue for up to two seconds.
  void SlowDown(int host, const std::string& rate) const;
  void Heal() const;

 private:
  std::string name(int host) const;
  // On the host, of iptables' INPUT.
  void Rule(int host, std::vector<std::string> rule) const;

  const int count_;
};

}  // namespace gimbal::test_support

// What somebody does to a running job who reaches its ports.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/net/socket.h"
#include "common/rpc/credentials.h"
#include "worker/transport/message.h"

namespace gimbal::test_support {

// host:port of everything that these processes listen on.
std::vector<std::string> PortsOf(const std::vector<int>& pids);

// A stop of the run, as these credentials allow.
absl::Status TryToStop(const std::string& coordinator,
                       const rpc::Credentials& credentials);
// A call of an admin method with these bytes as its request.
absl::Status CallWithBytes(const std::string& coordinator,
                           const rpc::Credentials& credentials,
                           const std::string& method, const std::string& bytes);

// Requests of other protocols, random bytes, greetings that break off. They are
// written whole or as far as the port takes them.
void SendGarbage(const std::string& address, unsigned seed);
// A greeting for a link, right but for the proof.
void SendForgedLink(const std::string& address,
                    const worker::EdgeIdentity& edge);
// A connection that stays, and how much of its greeting it has said.
struct HeldConnection {
  std::string address;
  std::string greeting;
  net::Socket socket;
  size_t said = 0;
};
std::vector<HeldConnection> HoldConnections(const std::string& address,
                                            int count);
// One more byte on each, so that none is ever idle for long; one that was ended
// or has nothing left to say is made anew.
void Dribble(std::vector<HeldConnection>& held);

}  // namespace gimbal::test_support

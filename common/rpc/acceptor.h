// Accepts a server's connections and hands them to gRPC, whose own listener has
// no limit: it takes connections until the process has no descriptor left, and
// never listens again after that.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/net/socket.h"

namespace grpc::experimental {
class ExternalConnectionAcceptor;
}

namespace gimbal::rpc {

class Acceptor {
 public:
  // UNAVAILABLE when the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(
      const std::string& address);
  // Takes no more connections.
  ~Acceptor();

  int port() const { return port_; }
  // `server` must have started.
  void Start(
      std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server);

 private:
  Acceptor(net::Socket socket, int port, net::Socket wake_read,
           net::Socket wake_write);
  void Loop();

  const net::Socket socket_;
  const int port_;
  const net::Socket wake_read_, wake_write_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  std::thread thread_;
};

}  // namespace gimbal::rpc

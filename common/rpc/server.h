// A gRPC server with the standard health service (Check and Watch) and
// reflection, which asks callers for what `credentials` say and bounds what
// those can do who do not show it: half of the process's descriptors for
// connections, five seconds for a handshake, twenty for a connection without a
// call, 4 MiB for a message.
//
//   GIMBAL_ASSIGN_OR_RETURN(rpc::Server server, rpc::Server::Start(
//       {.address = "127.0.0.1:0", .services = {&control, &admin}}));
//   LOG(server.address());           // "127.0.0.1:41234"
//   server.SetServing(false);        // health says NOT_SERVING
//   server.Shutdown(2s);             // waits for calls, then cancels them
//
// Thread-safe after Start. The services must outlive the server.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace gimbal::rpc {

class Acceptor;

class Server {
 public:
  struct Options {
    std::string address;  // host:port; port 0 picks a free one
    std::vector<grpc::Service*> services;
    Credentials credentials;
    // The least silence after which a client's connection is given up; at
    // least 10 s. Whoever has a lease longer than that loses only that.
    std::chrono::milliseconds patience{0};
  };

  // INVALID_ARGUMENT for an address that is not host:port, FAILED_PRECONDITION
  // for one that other hosts reach when there are no credentials, UNAVAILABLE
  // when it cannot be bound (taken, or not one of this machine); all name it.
  static absl::StatusOr<Server> Start(const Options& options);

  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  // Stops at once.
  ~Server();

  // host:port that is really listened on.
  const std::string& address() const { return address_; }

  void SetServing(bool serving);
  // Refuses new calls, waits for those in progress up to `grace`, cancels the
  // rest. Idempotent.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  Server(std::unique_ptr<grpc::Server> server,
         std::unique_ptr<Acceptor> acceptor, std::string address);

  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;  // null once it takes no more
  std::string address_;
};

}  // namespace gimbal::rpc

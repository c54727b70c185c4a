// A gRPC server with the standard health service (Check and Watch) and
// reflection.
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

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace gimbal::rpc {

class Server {
 public:
  struct Options {
    std::string address;  // host:port; port 0 picks a free one
    std::vector<grpc::Service*> services;
  };

  // INVALID_ARGUMENT for an address that is not host:port, UNAVAILABLE when it
  // cannot be bound (taken, or not one of this machine); both name it.
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
  Server(std::unique_ptr<grpc::Server> server, std::string address);

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace gimbal::rpc

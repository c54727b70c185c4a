#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"

namespace gimbal::rpc {
namespace {

void EnablePluginsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void SetArguments(grpc::ServerBuilder& builder) {
  // Two servers on one port would each get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // The counterpart of the clients' keepalive; without it their pings would be
  // answered with ENHANCE_YOUR_CALM.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

// "host" of "host:port"; the port must be a number.
absl::StatusOr<std::string> HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen address '", address,
        "': expected host:port with a port of 0 to 65535, e.g. 127.0.0.1:0"));
  }
  return address.substr(0, colon);
}

}  // namespace

absl::StatusOr<Server> Server::Start(const Options& options) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string host, HostOf(options.address));
  EnablePluginsOnce();
  grpc::ServerBuilder builder;
  SetArguments(builder);
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(),
                           &port);
  for (grpc::Service* service : options.services) {
    builder.RegisterService(service);
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options.address,
        ": the port is taken or the address is not one of this machine; free "
        "it, or use port 0 to pick a free one"));
  }
  return Server(std::move(server), absl::StrCat(host, ":", port));
}

Server::Server(std::unique_ptr<grpc::Server> server, std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() {
  if (server_ != nullptr) Shutdown(std::chrono::milliseconds(0));
}

void Server::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  server_->Shutdown(std::chrono::system_clock::now() + grace);
}

}  // namespace gimbal::rpc

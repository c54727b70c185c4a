#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/net/address.h"
#include "common/rpc/acceptor.h"
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

// Bounds for those who connect and do not go on.
constexpr int kHandshakeMs = 5000;
constexpr int kWithoutCallMs = 20000;
constexpr int kMaxStreams = 64;
constexpr int64_t kMaxPatienceMs = 24 * 3600 * 1000;

void SetArguments(grpc::ServerBuilder& builder,
                  std::chrono::milliseconds patience) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kWithoutCallMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // The counterpart of the clients' keepalive; without it their pings would be
  // answered with ENHANCE_YOUR_CALM.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(
          std::clamp<int64_t>(patience.count(), kKeepaliveMs, kMaxPatienceMs)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen address '", address,
        "': expected host:port with a port of 0 to 65535, e.g. 127.0.0.1:0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Server> Server::Start(const Options& options) {
  GIMBAL_RETURN_IF_ERROR(CheckAddress(options.address));
  GIMBAL_RETURN_IF_ERROR(
      options.credentials.CheckListen("gRPC", options.address));
  GIMBAL_ASSIGN_OR_RETURN(auto acceptor, Acceptor::Listen(options.address));
  EnablePluginsOnce();
  grpc::ServerBuilder builder;
  SetArguments(builder, options.patience);
  auto external = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      options.credentials.ForServer());
  for (grpc::Service* service : options.services) {
    builder.RegisterService(service);
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::InternalError("gRPC does not start a server");
  }
  std::string address =
      absl::StrCat(net::HostOf(options.address), ":", acceptor->port());
  acceptor->Start(std::move(external));
  return Server(std::move(server), std::move(acceptor), std::move(address));
}

Server::Server(std::unique_ptr<grpc::Server> server,
               std::unique_ptr<Acceptor> acceptor, std::string address)
    : server_(std::move(server)),
      acceptor_(std::move(acceptor)),
      address_(std::move(address)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() {
  if (server_ != nullptr) Shutdown(std::chrono::milliseconds(0));
}

void Server::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  acceptor_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + grace);
}

}  // namespace gimbal::rpc

#include "common/rpc/acceptor.h"

#include <fcntl.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace gimbal::rpc {

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(
    const std::string& address) {
  absl::StatusOr<net::Socket> socket = net::ListenOn(address);
  if (!socket.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address, " (",
        absl::string_view(socket.status().message()),
        "): the port is taken or the address is not one of this machine; free "
        "it, or use port 0 to pick a free one"));
  }
  GIMBAL_ASSIGN_OR_RETURN(const std::string bound, net::LocalAddress(*socket));
  int port = 0;
  GIMBAL_CHECK(absl::SimpleAtoi(bound.substr(bound.rfind(':') + 1), &port));
  int wake[2];
  if (pipe2(wake, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("making a pipe: ", std::strerror(errno)));
  }
  return std::unique_ptr<Acceptor>(new Acceptor(
      *std::move(socket), port, net::Socket(wake[0]), net::Socket(wake[1])));
}

Acceptor::Acceptor(net::Socket socket, int port, net::Socket wake_read,
                   net::Socket wake_write)
    : socket_(std::move(socket)),
      port_(port),
      wake_read_(std::move(wake_read)),
      wake_write_(std::move(wake_write)) {}

Acceptor::~Acceptor() {
  const char stop = 0;
  GIMBAL_CHECK(write(wake_write_.fd(), &stop, 1) == 1);
  if (thread_.joinable()) thread_.join();
}

void Acceptor::Start(
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server) {
  server_ = std::move(server);
  thread_ = std::thread([this] { Loop(); });
}

void Acceptor::Loop() {
  for (;;) {
    pollfd fds[2] = {{wake_read_.fd(), POLLIN, 0}, {socket_.fd(), POLLIN, 0}};
    poll(fds, 2, -1);
    if (fds[0].revents != 0) return;
    if (fds[1].revents == 0) continue;
    net::Socket socket = net::AcceptFrom(socket_);
    if (!socket.valid()) continue;
    const int yes = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(socket.fd(), F_SETFL, fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        connection;
    connection.listener_fd = socket_.fd();
    connection.fd = socket.Release();
    server_->HandleNewConnection(&connection);
  }
}

}  // namespace gimbal::rpc

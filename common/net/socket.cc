#include "common/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace gimbal::net {
namespace {

absl::Status SystemError(const std::string& what, int error) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
  return absl::UnavailableError(text);
}

absl::Status PeerGone() {
  return absl::UnavailableError("the peer closed the connection");
}

int MillisecondsUntil(base::SteadyTime deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - base::Clock::Real().Now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const std::string& address, int flags) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address, "': expected host:port"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("address '", address, "': ", gai_strerror(error)));
  }
  return AddressList(list, &freeaddrinfo);
}

absl::Status FinishConnect(const Socket& socket, const std::string& address,
                           base::SteadyTime deadline) {
  pollfd poll_fd{socket.fd(), POLLOUT, 0};
  const int ready = poll(&poll_fd, 1, MillisecondsUntil(deadline));
  if (ready == 0) {
    return absl::DeadlineExceededError(
        absl::StrCat("connecting to ", address, " took too long"));
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (ready < 0 || error != 0) {
    return SystemError(absl::StrCat("connecting to ", address),
                       error != 0 ? error : errno);
  }
  return absl::OkStatus();
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Socket::ReadAll(void* data, size_t bytes) const {
  return ReadAll(data, bytes, base::SteadyTime::max());
}

absl::Status Socket::ReadAll(void* data, size_t bytes,
                             base::SteadyTime deadline) const {
  const bool forever = deadline == base::SteadyTime::max();
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd poll_fd{fd_, POLLIN, 0};
    const int ready =
        poll(&poll_fd, 1, forever ? -1 : MillisecondsUntil(deadline));
    if (ready == 0) return absl::DeadlineExceededError("reading took too long");
    const ssize_t got = ready < 0 ? -1 : recv(fd_, at, bytes, MSG_DONTWAIT);
    if (got == 0) return PeerGone();
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return SystemError("reading from the peer", errno);
    }
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status Socket::WaitForInput(base::SteadyTime deadline) const {
  pollfd poll_fd{fd_, POLLIN, 0};
  const int ready = poll(&poll_fd, 1, MillisecondsUntil(deadline));
  // Whatever an interruption was for, the time is over for the caller.
  if (ready <= 0) return absl::DeadlineExceededError("nothing to read yet");
  return absl::OkStatus();
}

absl::Status Socket::WriteAll(const void* head, size_t head_bytes,
                              const void* body, size_t body_bytes) const {
  iovec pieces[2] = {{const_cast<void*>(head), head_bytes},
                     {const_cast<void*>(body), body_bytes}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  while (pieces[0].iov_len + pieces[1].iov_len > 0) {
    // MSG_NOSIGNAL: a dead peer is an error to report, not a SIGPIPE.
    ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return SystemError("writing to the peer", errno);
    }
    for (iovec& piece : pieces) {
      const size_t part = std::min(piece.iov_len, static_cast<size_t>(sent));
      piece.iov_base = static_cast<char*>(piece.iov_base) + part;
      piece.iov_len -= part;
      sent -= static_cast<ssize_t>(part);
    }
  }
  return absl::OkStatus();
}

bool Socket::PeerClosed() const {
  pollfd poll_fd{fd_, POLLRDHUP, 0};
  return poll(&poll_fd, 1, 0) > 0;
}

void Socket::Shutdown() const {
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
}

absl::Status ConfigureLinkSocket(const Socket& socket) {
  const auto set = [&](int level, int option, int value) {
    return setsockopt(socket.fd(), level, option, &value, sizeof value) == 0;
  };
  if (!set(IPPROTO_TCP, TCP_NODELAY, 1) || !set(SOL_SOCKET, SO_KEEPALIVE, 1) ||
      !set(IPPROTO_TCP, TCP_KEEPIDLE, 4) ||
      !set(IPPROTO_TCP, TCP_KEEPINTVL, 2) ||
      !set(IPPROTO_TCP, TCP_KEEPCNT, 3)) {
    return SystemError("configuring a link's socket", errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> ListenOn(const std::string& address) {
  GIMBAL_ASSIGN_OR_RETURN(AddressList list, Resolve(address, AI_PASSIVE));
  Socket socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SystemError("making a socket", errno);
  const int yes = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(socket.fd(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(socket.fd(), 64) != 0) {
    return SystemError(absl::StrCat("listening on ", address), errno);
  }
  return socket;
}

absl::StatusOr<std::string> LocalAddress(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(socket.fd(), address, &size) != 0 ||
      getnameinfo(address, size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return absl::InternalError("the socket has no address");
  }
  const bool v6 = storage.ss_family == AF_INET6;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

Socket AcceptFrom(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return socket;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // Numbers are given lowest first: so many are open.
  if (static_cast<rlim_t>(socket.fd()) >= limit.rlim_cur / 2) return Socket();
  return socket;
}

absl::StatusOr<Socket> ConnectTo(const std::string& address,
                                 base::SteadyTime deadline) {
  GIMBAL_ASSIGN_OR_RETURN(AddressList list, Resolve(address, 0));
  Socket socket(
      ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return SystemError("making a socket", errno);
  if (connect(socket.fd(), list->ai_addr, list->ai_addrlen) != 0 &&
      errno != EINPROGRESS) {
    return SystemError(absl::StrCat("connecting to ", address), errno);
  }
  GIMBAL_RETURN_IF_ERROR(FinishConnect(socket, address, deadline));
  // From here on reads are bounded by poll and writes may block.
  const int flags = fcntl(socket.fd(), F_GETFL);
  fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK);
  return socket;
}

}  // namespace gimbal::net

// TCP sockets: RAII, whole reads and writes, readable errors.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace gimbal::net {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Hands the descriptor over; closing it is the caller's from now on.
  int Release() { return std::exchange(fd_, -1); }

  // Blocks until all bytes have passed; UNAVAILABLE when the peer is gone.
  absl::Status ReadAll(void* data, size_t bytes) const;
  // The same, DEADLINE_EXCEEDED after the deadline.
  absl::Status ReadAll(void* data, size_t bytes,
                       base::SteadyTime deadline) const;
  // Waits until something can be read; DEADLINE_EXCEEDED after the deadline.
  absl::Status WaitForInput(base::SteadyTime deadline) const;
  // Writes two pieces as one stream of bytes.
  absl::Status WriteAll(const void* head, size_t head_bytes, const void* body,
                        size_t body_bytes) const;
  // Whether the peer has closed its end or died, whatever is still to be read.
  bool PeerClosed() const;
  // Wakes every thread that is blocked in a read or write on this socket.
  void Shutdown() const;

 private:
  int fd_ = -1;
};

// No delay for small messages; on an idle link keepalive notices after about
// 10 s that the peer's machine is gone (a dead process closes its sockets at
// once). With data on the way it is the coordinator's lease that notices:
// TCP_USER_TIMEOUT would also end links whose peer is alive and only does not
// read for a while, which is how a full mailbox holds the sender back.
absl::Status ConfigureLinkSocket(const Socket& socket);

// Listens on "host:port"; port 0 takes a free one. ALREADY_EXISTS names an
// address that is taken.
absl::StatusOr<Socket> ListenOn(const std::string& address);
// "host:port" the socket is bound to.
absl::StatusOr<std::string> LocalAddress(const Socket& socket);
// The next connection of a listening socket, or an invalid one. A connection is
// refused when the process has half of the descriptors open that it may have:
// it needs the other half for itself, whoever connects how often.
Socket AcceptFrom(const Socket& listener);
absl::StatusOr<Socket> ConnectTo(const std::string& address,
                                 base::SteadyTime deadline);

}  // namespace gimbal::net

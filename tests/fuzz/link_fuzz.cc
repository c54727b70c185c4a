// What arrives on a link: a header is refused or announces exactly what the
// edge carries, and any bytes on a connection end it with an error or wait for
// more.
#include <sys/socket.h>

#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "worker/transport/link_handshake.h"
#include "worker/transport/tcp_link.h"

namespace {

using namespace gimbal::worker;

const EdgeSpec kEdge{{.run = 1, .generation = 1, .edge = 0}, 2, 3};

void CheckOneHeader(const uint8_t* data, size_t size) {
  MessageHeader header;
  if (size < sizeof header) return;
  std::memcpy(&header, data, sizeof header);
  const absl::Status status = CheckHeader(header, kEdge);
  if (!status.ok()) {
    FUZZ_CHECK(!ToString(header).empty());
    return;
  }
  FUZZ_CHECK(PayloadBytes(header) > 0);
  FUZZ_CHECK(PayloadBytes(header) <= kEdge.payload_capacity());
}

// As if the peer had sent it and gone.
void Receive(const uint8_t* data, size_t size) {
  int fds[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const Socket peer(fds[0]);
  FUZZ_CHECK(send(peer.fd(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL) ==
             static_cast<ssize_t>(size));
  FUZZ_CHECK(shutdown(peer.fd(), SHUT_WR) == 0);
  Signal signal;
  TcpLink link(kEdge, Socket(fds[1]), signal);
  while (link.status().ok()) {
    const uint64_t seen = signal.count();
    for (int kind = 1; kind <= 5; ++kind) {
      link.Take(static_cast<MessageKind>(kind), 0);
    }
    if (link.status().ok()) signal.WaitPast(seen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CheckOneHeader(data, size);
  if (size <= 4096) Receive(data, size);
  return 0;
}

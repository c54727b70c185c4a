// What arrives on a link: a header is refused or announces exactly what the
// edge carries, and any bytes on a connection end it with an error or wait for
// more.
#include <sys/socket.h>

#include <cstring>
#include <vector>

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

// The headers of the messages that the link delivers of this stream. Those that
// nobody takes hold it up, as they should.
std::vector<MessageHeader> Delivered(const uint8_t* data, size_t size) {
  constexpr size_t kHello = 88;
  std::vector<MessageHeader> headers;
  MessageHeader header;
  for (size_t at = kHello; at + sizeof header <= size;) {
    std::memcpy(&header, data + at, sizeof header);
    if (!CheckHeader(header, kEdge).ok()) break;
    headers.push_back(header);
    at += sizeof header + static_cast<size_t>(PayloadBytes(header));
  }
  return headers;
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
  const std::vector<MessageHeader> headers = Delivered(data, size);
  while (link.status().ok()) {
    const uint64_t seen = signal.count();
    for (const MessageHeader& header : headers) {
      link.Take(header.kind, header.index, header.part);
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

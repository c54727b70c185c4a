// A link between stages of two workers: framed TCP, one connection per edge.
// A writer thread sends queued messages, a reader thread checks each header and
// delivers; the executor never blocks in the kernel.
//
// A connection that breaks does not end the link: it says so once, keeps what
// has arrived and what was sent, and goes on over the next connection, whose
// other end may be a stage that starts again from a checkpoint. Each connection
// begins with both ends saying how far they have received; what the peer has is
// not sent again, what it needs again is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/net/socket.h"
#include "worker/transport/edge_log.h"
#include "worker/transport/link.h"

namespace gimbal::worker {

using net::Socket;

struct TcpLinkOptions {
  Positions received;  // what this end does not need any more
  EdgeLogLimits log;
  // Called once per connection that breaks, on a thread of the link:
  // UNAVAILABLE when the peer is gone, OUT_OF_RANGE when it needs messages that
  // are not kept. Without it, the first one ends the link.
  std::function<void(const absl::Status&)> on_broken;
};

class TcpLink final : public Link {
 public:
  // Takes a connection on which the handshake is done. `signal` must outlive
  // the link.
  TcpLink(const EdgeSpec& spec, Socket socket, Signal& signal,
          TcpLinkOptions options = {});
  ~TcpLink() override;

  bool Writable() const override;
  void Prune(const Positions& cut) override { log_.Prune(cut); }
  void Close() override;

  // Both from one thread. Detach leaves the connection, broken or not, without
  // a word to on_broken; Attach goes on over another one.
  void Detach();
  void Attach(int64_t generation, Socket socket);

 private:
  void Start(int64_t generation, Socket socket);
  void DoSend(Message message) override;
  void Break(const absl::Status& why);
  void WriteLoop(const Positions& received);
  absl::Status Write(const Positions& received);
  void ReadLoop();
  absl::Status ReadPositions();
  absl::Status ReadOne();

  Signal& signal_;
  const std::function<void(const absl::Status&)> on_broken_;
  EdgeLog log_;
  // Of the present connection; changed only while its threads are not there.
  Socket socket_;
  EdgeSpec connection_;
  Positions received_;  // the reader's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> over_ = true;  // the connection is, its threads leave
  bool peer_known_ = false;        // its positions have come
  std::thread writer_;
  std::thread reader_;
};

}  // namespace gimbal::worker

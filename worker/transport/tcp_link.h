// A link between stages of two workers: framed TCP, one connection per edge.
// A writer thread sends queued messages, a reader thread checks each header and
// delivers; the executor never blocks in the kernel.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "worker/transport/link.h"
#include "worker/transport/socket.h"

namespace gimbal::worker {

class TcpLink final : public Link {
 public:
  // Takes a connection on which the handshake is done. `signal` must outlive
  // the link.
  TcpLink(const EdgeSpec& spec, Socket socket, Signal& signal);
  ~TcpLink() override;

  bool Writable() const override;
  void Close() override;

 private:
  void DoSend(Message message) override;
  void WriteLoop();
  void ReadLoop();
  absl::Status ReadOne();

  const Socket socket_;
  Signal& signal_;
  mutable std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<Message> outgoing_;
  bool closing_ = false;
  std::thread writer_;
  std::thread reader_;
};

}  // namespace gimbal::worker

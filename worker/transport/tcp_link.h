// A link between stages of two workers: framed TCP, one connection per edge.
// A writer thread sends queued messages, a reader thread checks each header and
// delivers; the executor never blocks in the kernel.
//
// A connection that breaks does not end the link: it says so once, keeps what
// has arrived and what was sent, and goes on over the next connection, whose
// other end may be a stage that starts again from a checkpoint. Each connection
// begins with both ends saying how far they have received; what the peer has is
// not sent again, what it needs again is.
//
// Boundary tensors that a back end keeps on a device pass through the host, or,
// on a connection that has them, through channels from device to device
// (common/adr/2026-11-30-nccl-links.md). A header still goes over the
// connection then, and only while the peer has room: its payload is waited for
// at once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "common/net/socket.h"
#include "worker/transport/edge_log.h"
#include "worker/transport/link.h"
#include "worker/transport/payload_channel.h"

namespace gimbal::worker {

using net::Socket;

// Of one connection; both ends have them or neither.
struct TcpLinkChannels {
  PayloadChannels* maker = nullptr;  // null: none
  std::chrono::milliseconds timeout{30000};
  std::function<void(const std::string&)> stuck;  // see ChannelOptions
};

struct TcpLinkOptions {
  Positions received;  // what this end does not need any more
  EdgeLogLimits log;
  // Called once per connection that breaks, on a thread of the link:
  // UNAVAILABLE when the peer is gone, OUT_OF_RANGE when it needs messages that
  // are not kept. Without it, the first one ends the link.
  std::function<void(const absl::Status&)> on_broken;
  compute::Memory* tensors = &compute::HeapMemory();  // see DeviceLinks
  compute::Memory* host = &compute::HeapMemory();
  TcpLinkChannels channels;  // of the first connection
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

  // These from one thread. Leave ends the connection, broken or not, without a
  // word to on_broken; Detach also waits until its threads have left, which
  // takes as long as what they hold on a device. Of several links leave all
  // before the first is waited for: a device may be held up by any of them.
  // Attach goes on over another connection.
  void Leave();
  void Detach();
  void Attach(int64_t generation, Socket socket, TcpLinkChannels channels = {});

 private:
  void Start(int64_t generation, Socket socket, TcpLinkChannels channels);
  void DoSend(Message message) override;
  void Taken() override;
  void Break(const absl::Status& why);

  void WriteLoop(const Positions& received);
  absl::Status Write(const Positions& received);
  absl::Status OpenOutgoing(std::unique_ptr<PayloadChannel>& channel);
  // Waits for something to write: room to grant, which it returns, or else a
  // message. Nothing when the connection is over.
  std::optional<size_t> AwaitWork();
  absl::Status WriteMessages(PayloadChannel* channel);
  absl::Status WriteRoom(size_t messages);
  absl::Status WriteMessage(const Message& message, PayloadChannel* channel);
  absl::Status SendThrough(PayloadChannel& channel, const PooledBuffer& kept);

  void ReadLoop();
  absl::Status Read();
  absl::Status ReadPositions();
  absl::Status OpenIncoming(std::unique_ptr<PayloadChannel>& channel);
  absl::Status ReadOne(PayloadChannel* channel);
  bool HasGranted() const;
  absl::Status TakeRoom(int64_t messages);
  absl::StatusOr<PooledBuffer> ReadPayload(const MessageHeader& header,
                                           PayloadChannel* channel);
  std::unique_ptr<PayloadChannel> MakeChannel(const ChannelId& id, bool sends);

  Signal& signal_;
  const std::function<void(const absl::Status&)> on_broken_;
  EdgeLog log_;
  // Of the present connection; changed only while its threads are not there.
  Socket socket_;
  EdgeSpec connection_;
  TcpLinkChannels channels_;
  Positions received_;  // the reader's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> over_ = true;     // the connection is, its threads leave
  bool peer_known_ = false;           // its positions have come
  std::atomic<bool> grants_ = false;  // it has channels
  // Then: messages that the peer will take, and that it may send.
  size_t room_ = 0, granted_ = 0;
  std::thread writer_;
  std::thread reader_;
};

}  // namespace gimbal::worker

// One end of an edge between two neighbouring stages.
//
// Errors come up in status(), UNAVAILABLE when the peer is gone and nobody
// mends the link (worker/transport/tcp_link.h), DATA_LOSS when it sent what
// does not belong here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "worker/transport/buffer_pool.h"
#include "worker/transport/mailbox.h"
#include "worker/transport/message.h"

namespace gimbal::worker {

// Send, Take, Writable: one thread (the executor). The rest: any thread.
class Link {
 public:
  virtual ~Link() = default;

  // Hands over a message; never blocks. Fills in the header's identity.
  // Requires Writable().
  void Send(Message message) {
    message.header.run = spec_.identity.run;
    message.header.generation = spec_.identity.generation;
    message.header.edge = spec_.identity.edge;
    DoSend(std::move(message));
  }
  // False while the messages sent before have not got through; the signal tells
  // when to ask again.
  virtual bool Writable() const = 0;
  std::optional<Message> Take(MessageKind kind, int64_t index,
                              int32_t part = 0) {
    return inbox_->Take(kind, index, part);
  }
  absl::Status status() const { return inbox_->status(); }
  // Memory for a payload of this edge.
  PooledBuffer TakeBuffer(int64_t bytes) { return pool_->Take(bytes); }
  const EdgeSpec& spec() const { return spec_; }

  // No stage will start again before this cut.
  virtual void Prune(const Positions& /*cut*/) {}

  // Ends the link: the peer sees UNAVAILABLE. Called twice is fine.
  virtual void Close() = 0;

 protected:
  Link(const EdgeSpec& spec, Signal& signal)
      : spec_(spec),
        inbox_(std::make_shared<Mailbox>(signal)),
        pool_(BufferPool::Make(spec.payload_capacity())) {}
  virtual void DoSend(Message message) = 0;

  const EdgeSpec spec_;
  const std::shared_ptr<Mailbox> inbox_;
  const std::shared_ptr<BufferPool> pool_;
};

}  // namespace gimbal::worker

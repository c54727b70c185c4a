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

// Send, Arrived, Take, Writable: one thread (the executor). The rest: any
// thread.
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
  // Whether the message can be taken.
  virtual bool Arrived(MessageKind kind, int64_t index,
                       int32_t part = 0) const {
    return inbox_->Holds(kind, index, part);
  }
  std::optional<Message> Take(MessageKind kind, int64_t index,
                              int32_t part = 0) {
    std::optional<Message> message = inbox_->Take(kind, index, part);
    if (message) Taken();
    return message;
  }
  absl::Status status() const { return inbox_->status(); }
  // Memory for a boundary tensor of this edge, where the back end has them.
  PooledBuffer TakeBuffer(int64_t bytes) { return pool_->Take(bytes); }
  // Memory of the host, for a payload that is no such tensor.
  PooledBuffer TakeHostBuffer(int64_t bytes) { return host_pool_->Take(bytes); }
  const EdgeSpec& spec() const { return spec_; }

  // No stage will start again before this cut.
  virtual void Prune(const Positions& /*cut*/) {}

  // Ends the link: the peer sees UNAVAILABLE. Called twice is fine.
  virtual void Close() = 0;

 protected:
  Link(const EdgeSpec& spec, Signal& signal,
       compute::Memory& tensors = compute::HeapMemory(),
       compute::Memory& host = compute::HeapMemory())
      : spec_(spec),
        inbox_(std::make_shared<Mailbox>(signal)),
        pool_(BufferPool::Make(spec.payload_capacity(), tensors)),
        host_pool_(BufferPool::Make(spec.payload_capacity(), host)) {}
  virtual void DoSend(Message message) = 0;
  // A message has left the inbox.
  virtual void Taken() {}

  const EdgeSpec spec_;
  const std::shared_ptr<Mailbox> inbox_;
  const std::shared_ptr<BufferPool> pool_, host_pool_;
};

}  // namespace gimbal::worker

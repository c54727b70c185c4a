// A link between two stages of one worker: messages move, nothing is copied.
#pragma once

#include <memory>
#include <utility>

#include "worker/transport/link.h"

namespace gimbal::worker {

class InProcessLink final : public Link {
 public:
  // The two ends, {upstream stage's, downstream stage's}, with boundary tensors
  // in `tensors`. `signal` must outlive both.
  static std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakePair(
      const EdgeSpec& spec, Signal& signal,
      compute::Memory& tensors = compute::HeapMemory());
  ~InProcessLink() override { Close(); }

  bool Writable() const override { return !peer_->Full(); }
  void Close() override;

 private:
  using Link::Link;
  void DoSend(Message message) override { peer_->Deliver(std::move(message)); }

  std::shared_ptr<Mailbox> peer_;
};

}  // namespace gimbal::worker

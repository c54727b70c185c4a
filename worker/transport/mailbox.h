// Messages that have arrived on one end of a link and wait for the executor,
// which takes them by what they are, not in the order of arrival: at a cut an
// evaluation's activations overtake a forward that was sent before them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "worker/transport/message.h"
#include "worker/transport/signal.h"

namespace gimbal::worker {

// Thread-safe.
class Mailbox {
 public:
  // Messages held before the sender has to wait. Schedules consume a direction
  // in the order in which it is filled but for one forward at a cut, so a few
  // are enough and a full mailbox never blocks for good.
  static constexpr size_t kCapacity = 4;

  explicit Mailbox(Signal& signal) : signal_(signal) {}

  // Adds a message that passed CheckHeader. A second one of the same kind,
  // index and part fails the mailbox.
  void Deliver(Message message);
  bool Holds(MessageKind kind, int64_t index, int32_t part = 0) const;
  // Takes the message, when it is here. Messages that arrived before a failure
  // can still be taken.
  std::optional<Message> Take(MessageKind kind, int64_t index,
                              int32_t part = 0);
  size_t size() const;
  bool Full() const { return size() >= kCapacity; }
  // Waits until there is room, the mailbox has failed, or `stop` after a Wake.
  void WaitForRoom(const std::atomic<bool>& stop);
  void Wake();
  // The first failure stands.
  void Fail(const absl::Status& status);
  absl::Status status() const;

 private:
  Signal& signal_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::deque<Message> messages_;
  absl::Status status_;
};

}  // namespace gimbal::worker

#include "worker/transport/mailbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gimbal::worker {
namespace {

bool Matches(const MessageHeader& header, MessageKind kind, int64_t index,
             int32_t part) {
  return header.kind == kind && header.index == index && header.part == part;
}

}  // namespace

void Mailbox::Deliver(Message message) {
  {
    std::lock_guard lock(mutex_);
    const MessageHeader& header = message.header;
    const bool twice = std::any_of(
        messages_.begin(), messages_.end(), [&](const Message& other) {
          return Matches(other.header, header.kind, header.index, header.part);
        });
    if (twice && status_.ok()) {
      status_ = absl::DataLossError(
          absl::StrCat("received twice: ", ToString(header)));
    }
    if (status_.ok()) messages_.push_back(std::move(message));
  }
  signal_.Notify();
}

bool Mailbox::Holds(MessageKind kind, int64_t index, int32_t part) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(messages_, [&](const Message& message) {
    return Matches(message.header, kind, index, part);
  });
}

std::optional<Message> Mailbox::Take(MessageKind kind, int64_t index,
                                     int32_t part) {
  std::optional<Message> found;
  {
    std::lock_guard lock(mutex_);
    const auto it = std::find_if(
        messages_.begin(), messages_.end(), [&](const Message& message) {
          return Matches(message.header, kind, index, part);
        });
    if (it == messages_.end()) return std::nullopt;
    found = std::move(*it);
    messages_.erase(it);
  }
  room_.notify_all();
  return found;
}

size_t Mailbox::size() const {
  std::lock_guard lock(mutex_);
  return messages_.size();
}

void Mailbox::WaitForRoom(const std::atomic<bool>& stop) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] {
    return messages_.size() < kCapacity || !status_.ok() || stop;
  });
}

void Mailbox::Wake() {
  // Whoever waits for room has either seen `stop` or is waiting already.
  { std::lock_guard lock(mutex_); }
  room_.notify_all();
}

void Mailbox::Fail(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  room_.notify_all();
  signal_.Notify();
}

absl::Status Mailbox::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace gimbal::worker

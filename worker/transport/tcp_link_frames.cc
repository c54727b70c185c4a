// What a connection of a TcpLink carries, and the two threads that write and
// read it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/transport/tcp_link.h"

namespace gimbal::worker {
namespace {

// The first thing on a connection, from both sides.
struct Hello {
  uint32_t magic = MessageHeader::kMagic;
  uint32_t version = MessageHeader::kVersion;
  Positions received;
};
static_assert(sizeof(Hello) == 88);

// The second, where there are channels: that in which its sender sends.
struct ChannelHello {
  static constexpr uint32_t kMagic = 0x43424d47;  // "GMBC"
  uint32_t magic = kMagic;
  uint32_t version = MessageHeader::kVersion;
  char id[kChannelIdBytes] = {};
};
static_assert(sizeof(ChannelHello) == 136);

}  // namespace

absl::Status TcpLink::Write(const Positions& received) {
  const Hello hello{.received = received};
  GIMBAL_RETURN_IF_ERROR(socket_.WriteAll(&hello, sizeof hello, nullptr, 0));
  std::unique_ptr<PayloadChannel> channel;
  if (connection_.channels) GIMBAL_RETURN_IF_ERROR(OpenOutgoing(channel));
  const absl::Status wrote = WriteMessages(channel.get());
  // The coordinator need not wait for what the channel still holds.
  if (!wrote.ok()) Break(wrote);
  return absl::OkStatus();
}

absl::Status TcpLink::OpenOutgoing(std::unique_ptr<PayloadChannel>& channel) {
  GIMBAL_ASSIGN_OR_RETURN(const ChannelId id, channels_.maker->NewId());
  ChannelHello hello;
  std::memcpy(hello.id, id.data(), std::min(id.size(), sizeof hello.id));
  GIMBAL_RETURN_IF_ERROR(socket_.WriteAll(&hello, sizeof hello, nullptr, 0));
  channel = MakeChannel(id, /*sends=*/true);
  return channel->Open();
}

std::optional<size_t> TcpLink::AwaitWork() {
  std::unique_lock lock(mutex_);
  size_t grant = 0;
  changed_.wait(lock, [&] {
    const bool sends = peer_known_ && log_.unsent() > 0;
    if (!connection_.channels) return over_ || sends;
    const size_t held = inbox_->size() + granted_;
    grant = held < Mailbox::kCapacity ? Mailbox::kCapacity - held : 0;
    return over_ || grant > 0 || (sends && room_ > 0);
  });
  if (over_) return std::nullopt;
  granted_ += grant;
  return grant;
}

absl::Status TcpLink::WriteMessages(PayloadChannel* channel) {
  while (const std::optional<size_t> grant = AwaitWork()) {
    if (*grant > 0) {
      GIMBAL_RETURN_IF_ERROR(WriteRoom(*grant));
      continue;
    }
    if (channel == nullptr) log_.BringToHost(*host_pool_, /*unsent=*/true);
    GIMBAL_ASSIGN_OR_RETURN(const std::shared_ptr<const Message> message,
                            log_.Next(*host_pool_));
    signal_.Notify();  // perhaps there is room now
    if (message != nullptr) {
      GIMBAL_RETURN_IF_ERROR(WriteMessage(*message, channel));
    }
    log_.BringToHost(*host_pool_, /*unsent=*/false);
    log_.Spill();
  }
  return absl::OkStatus();
}

absl::Status TcpLink::WriteRoom(size_t messages) {
  const MessageHeader header{.kind = MessageKind::kRoom,
                             .run = connection_.identity.run,
                             .generation = connection_.identity.generation,
                             .edge = connection_.identity.edge,
                             .index = static_cast<int64_t>(messages)};
  return socket_.WriteAll(&header, sizeof header, nullptr, 0);
}

absl::Status TcpLink::WriteMessage(const Message& message,
                                   PayloadChannel* channel) {
  MessageHeader header = message.header;
  header.generation = connection_.identity.generation;
  if (channel != nullptr) {
    std::lock_guard lock(mutex_);
    --room_;
  }
  if (channel == nullptr || !IsTensor(header.kind)) {
    return socket_.WriteAll(&header, sizeof header, message.payload.data(),
                            static_cast<size_t>(message.payload.size()));
  }
  GIMBAL_RETURN_IF_ERROR(socket_.WriteAll(&header, sizeof header, nullptr, 0));
  return SendThrough(*channel, message.payload);
}

absl::Status TcpLink::SendThrough(PayloadChannel& channel,
                                  const PooledBuffer& payload) {
  if (payload.on_device() == pool_->memory().on_device()) {
    return channel.Transfer(payload.data(), payload.size());
  }
  // Kept for a peer that starts again.
  const PooledBuffer again = pool_->Take(payload.size());
  pool_->memory().FromHost(payload.data(), payload.size(), again.data());
  return channel.Transfer(again.data(), again.size());
}

absl::Status TcpLink::Read() {
  GIMBAL_RETURN_IF_ERROR(ReadPositions());
  std::unique_ptr<PayloadChannel> channel;
  if (connection_.channels) GIMBAL_RETURN_IF_ERROR(OpenIncoming(channel));
  absl::Status read;
  while (read.ok() && !over_) {
    // With channels nothing comes that has no room, and room must be heard of.
    if (channel == nullptr) inbox_->WaitForRoom(over_);
    if (!over_) read = ReadOne(channel.get());
  }
  if (!read.ok()) Break(read);
  return absl::OkStatus();
}

absl::Status TcpLink::ReadPositions() {
  Hello hello;
  GIMBAL_RETURN_IF_ERROR(socket_.ReadAll(&hello, sizeof hello));
  if (hello.magic != MessageHeader::kMagic ||
      hello.version != MessageHeader::kVersion) {
    return absl::DataLossError("the peer is not a gimbal link of this version");
  }
  GIMBAL_RETURN_IF_ERROR(log_.Resume(hello.received));
  {
    std::lock_guard lock(mutex_);
    peer_known_ = true;
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status TcpLink::OpenIncoming(std::unique_ptr<PayloadChannel>& channel) {
  ChannelHello hello;
  GIMBAL_RETURN_IF_ERROR(socket_.ReadAll(&hello, sizeof hello));
  if (hello.magic != ChannelHello::kMagic) {
    return absl::DataLossError(
        absl::StrCat("edge ", spec_.identity.edge,
                     ": this end has channels for tensors, the other has not"));
  }
  channel = MakeChannel(ChannelId(hello.id, sizeof hello.id), /*sends=*/false);
  return channel->Open();
}

absl::Status TcpLink::ReadOne(PayloadChannel* channel) {
  Message message;
  GIMBAL_RETURN_IF_ERROR(
      socket_.ReadAll(&message.header, sizeof message.header));
  GIMBAL_RETURN_IF_ERROR(CheckHeader(message.header, connection_));
  if (message.header.kind == MessageKind::kRoom) {
    return TakeRoom(message.header.index);
  }
  if (channel != nullptr && !HasGranted()) {
    return absl::DataLossError(absl::StrCat("more than there was room for: ",
                                            ToString(message.header)));
  }
  GIMBAL_ASSIGN_OR_RETURN(message.payload,
                          ReadPayload(message.header, channel));
  received_[message.header.kind] = {message.header.index, message.header.part};
  if (channel == nullptr) {
    inbox_->Deliver(std::move(message));
    return absl::OkStatus();
  }
  // Counted once, by the inbox or by what is granted.
  std::lock_guard lock(mutex_);
  inbox_->Deliver(std::move(message));
  --granted_;
  return absl::OkStatus();
}

bool TcpLink::HasGranted() const {
  std::lock_guard lock(mutex_);
  return granted_ > 0;
}

absl::Status TcpLink::TakeRoom(int64_t messages) {
  if (messages < 1 || messages > static_cast<int64_t>(Mailbox::kCapacity)) {
    return absl::DataLossError(
        absl::StrCat("room for ", messages, " messages"));
  }
  {
    std::lock_guard lock(mutex_);
    room_ += static_cast<size_t>(messages);
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<PooledBuffer> TcpLink::ReadPayload(const MessageHeader& header,
                                                  PayloadChannel* channel) {
  const int64_t bytes = PayloadBytes(header);
  const auto size = static_cast<size_t>(bytes);
  if (!IsTensor(header.kind)) {
    PooledBuffer payload = host_pool_->Take(bytes);
    GIMBAL_RETURN_IF_ERROR(socket_.ReadAll(payload.data(), size));
    return payload;
  }
  PooledBuffer payload = pool_->Take(bytes);
  if (channel != nullptr) {
    GIMBAL_RETURN_IF_ERROR(channel->Transfer(payload.data(), bytes));
  } else if (!payload.on_device()) {
    GIMBAL_RETURN_IF_ERROR(socket_.ReadAll(payload.data(), size));
  } else {
    const PooledBuffer staged = host_pool_->Take(bytes);
    GIMBAL_RETURN_IF_ERROR(socket_.ReadAll(staged.data(), size));
    payload.memory().FromHost(staged.data(), bytes, payload.data());
  }
  return payload;
}

}  // namespace gimbal::worker

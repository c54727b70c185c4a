#include "worker/transport/tcp_link.h"

#include <utility>

#include "common/base/status_macros.h"

namespace gimbal::worker {
namespace {

// The first thing on a connection, from both sides.
struct Hello {
  uint32_t magic = MessageHeader::kMagic;
  uint32_t version = MessageHeader::kVersion;
  Positions received;
};
static_assert(sizeof(Hello) == 88);

}  // namespace

TcpLink::TcpLink(const EdgeSpec& spec, Socket socket, Signal& signal,
                 TcpLinkOptions options)
    : Link(spec, signal),
      signal_(signal),
      on_broken_(std::move(options.on_broken)),
      log_(std::move(options.log)),
      received_(options.received) {
  Start(spec.identity.generation, std::move(socket));
}

TcpLink::~TcpLink() {
  Close();
  Detach();
}

void TcpLink::Start(int64_t generation, Socket socket) {
  socket_ = std::move(socket);
  connection_ = spec_;
  connection_.identity.generation = generation;
  peer_known_ = false;
  over_ = false;
  writer_ = std::thread([this, received = received_] { WriteLoop(received); });
  reader_ = std::thread([this] { ReadLoop(); });
}

void TcpLink::Attach(int64_t generation, Socket socket) {
  Detach();
  if (status().ok()) Start(generation, std::move(socket));
}

void TcpLink::Detach() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  inbox_->Wake();
  socket_.Shutdown();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

void TcpLink::Close() {
  inbox_->Fail(absl::UnavailableError("the link was closed"));
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  socket_.Shutdown();
}

void TcpLink::Break(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
  }
  changed_.notify_all();
  inbox_->Wake();
  socket_.Shutdown();
  if (on_broken_ == nullptr || absl::IsDataLoss(why)) {
    inbox_->Fail(why);
  } else {
    on_broken_(why);
  }
}

bool TcpLink::Writable() const {
  return log_.unsent() < static_cast<int64_t>(Mailbox::kCapacity);
}

void TcpLink::DoSend(Message message) {
  log_.Append(std::move(message));
  // The writer looks at the log with the mutex held, so it either sees the
  // message or is waiting.
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void TcpLink::WriteLoop(const Positions& received) {
  if (const absl::Status wrote = Write(received); !wrote.ok()) Break(wrote);
}

absl::Status TcpLink::Write(const Positions& received) {
  const Hello hello{.received = received};
  GIMBAL_RETURN_IF_ERROR(socket_.WriteAll(&hello, sizeof hello, nullptr, 0));
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(
          lock, [&] { return over_ || (peer_known_ && log_.unsent() > 0); });
      if (over_) return absl::OkStatus();
    }
    GIMBAL_ASSIGN_OR_RETURN(const std::shared_ptr<const Message> message,
                            log_.Next(*pool_));
    signal_.Notify();  // perhaps there is room now
    if (message == nullptr) continue;
    MessageHeader header = message->header;
    header.generation = connection_.identity.generation;
    GIMBAL_RETURN_IF_ERROR(
        socket_.WriteAll(&header, sizeof header, message->payload.data(),
                         static_cast<size_t>(message->payload.size())));
    log_.Spill();
  }
}

void TcpLink::ReadLoop() {
  absl::Status read = ReadPositions();
  while (read.ok() && !over_) {
    inbox_->WaitForRoom(over_);
    if (!over_) read = ReadOne();
  }
  if (!read.ok()) Break(read);
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

absl::Status TcpLink::ReadOne() {
  Message message;
  GIMBAL_RETURN_IF_ERROR(
      socket_.ReadAll(&message.header, sizeof message.header));
  GIMBAL_RETURN_IF_ERROR(CheckHeader(message.header, connection_));
  const int64_t bytes = PayloadBytes(message.header);
  message.payload = pool_->Take(bytes);
  GIMBAL_RETURN_IF_ERROR(
      socket_.ReadAll(message.payload.data(), static_cast<size_t>(bytes)));
  received_[message.header.kind] = {message.header.index, message.header.part};
  inbox_->Deliver(std::move(message));
  return absl::OkStatus();
}

}  // namespace gimbal::worker

#include "worker/transport/tcp_link.h"

#include <utility>

#include "common/base/status_macros.h"

namespace gimbal::worker {

TcpLink::TcpLink(const EdgeSpec& spec, Socket socket, Signal& signal)
    : Link(spec, signal), socket_(std::move(socket)), signal_(signal) {
  writer_ = std::thread([this] { WriteLoop(); });
  reader_ = std::thread([this] { ReadLoop(); });
}

TcpLink::~TcpLink() {
  Close();
  writer_.join();
  reader_.join();
}

void TcpLink::Close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  queued_.notify_all();
  inbox_->Fail(absl::UnavailableError("the link was closed"));
  socket_.Shutdown();
}

bool TcpLink::Writable() const {
  std::lock_guard lock(mutex_);
  return outgoing_.size() < Mailbox::kCapacity;
}

void TcpLink::DoSend(Message message) {
  {
    std::lock_guard lock(mutex_);
    outgoing_.push_back(std::move(message));
  }
  queued_.notify_all();
}

void TcpLink::WriteLoop() {
  for (;;) {
    Message message;
    {
      std::unique_lock lock(mutex_);
      queued_.wait(lock, [&] { return closing_ || !outgoing_.empty(); });
      if (closing_) return;
      message = std::move(outgoing_.front());
      outgoing_.pop_front();
    }
    signal_.Notify();
    const absl::Status sent = socket_.WriteAll(
        &message.header, sizeof message.header, message.payload.data(),
        static_cast<size_t>(message.payload.size()));
    if (!sent.ok()) {
      inbox_->Fail(sent);
      return;
    }
  }
}

void TcpLink::ReadLoop() {
  for (;;) {
    inbox_->WaitForRoom();
    if (const absl::Status read = ReadOne(); !read.ok()) {
      inbox_->Fail(read);
      return;
    }
  }
}

absl::Status TcpLink::ReadOne() {
  Message message;
  GIMBAL_RETURN_IF_ERROR(
      socket_.ReadAll(&message.header, sizeof message.header));
  GIMBAL_RETURN_IF_ERROR(CheckHeader(message.header, spec_));
  const int64_t bytes = PayloadBytes(message.header);
  message.payload = pool_->Take(bytes);
  GIMBAL_RETURN_IF_ERROR(
      socket_.ReadAll(message.payload.data(), static_cast<size_t>(bytes)));
  inbox_->Deliver(std::move(message));
  return absl::OkStatus();
}

}  // namespace gimbal::worker

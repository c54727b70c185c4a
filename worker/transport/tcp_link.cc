#include "worker/transport/tcp_link.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace gimbal::worker {
namespace {

// Of a device: as many as can be in use at once. A transfer may hold up an
// allocation, which must then not hold up another transfer.
constexpr int kDeviceBuffers = 3 * static_cast<int>(Mailbox::kCapacity);

// What memory or a device of a back end throws ends the connection.
absl::Status Guarded(const std::function<absl::Status()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("a link's memory failed: ", error.what()));
  }
}

}  // namespace

TcpLink::TcpLink(const EdgeSpec& spec, Socket socket, Signal& signal,
                 TcpLinkOptions options)
    : Link(spec, signal, *options.tensors, *options.host),
      signal_(signal),
      on_broken_(std::move(options.on_broken)),
      log_(std::move(options.log)),
      received_(options.received) {
  if (options.tensors->on_device()) pool_->Reserve(kDeviceBuffers);
  Start(spec.identity.generation, std::move(socket),
        std::move(options.channels));
}

TcpLink::~TcpLink() {
  Close();
  Detach();
}

void TcpLink::Start(int64_t generation, Socket socket,
                    TcpLinkChannels channels) {
  socket_ = std::move(socket);
  channels_ = std::move(channels);
  connection_ = spec_;
  connection_.identity.generation = generation;
  connection_.channels = channels_.maker != nullptr;
  peer_known_ = false;
  room_ = granted_ = 0;
  grants_ = connection_.channels;
  over_ = false;
  writer_ = std::thread([this, received = received_] { WriteLoop(received); });
  reader_ = std::thread([this] { ReadLoop(); });
}

void TcpLink::Attach(int64_t generation, Socket socket,
                     TcpLinkChannels channels) {
  Detach();
  if (status().ok()) Start(generation, std::move(socket), std::move(channels));
}

void TcpLink::Leave() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  inbox_->Wake();
  socket_.Shutdown();
}

void TcpLink::Detach() {
  Leave();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

void TcpLink::Close() {
  inbox_->Fail(absl::UnavailableError("the link was closed"));
  Leave();
}

void TcpLink::Break(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
  }
  Leave();
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

void TcpLink::Taken() {
  if (!grants_) return;
  // As above: there may be room to grant.
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

std::unique_ptr<PayloadChannel> TcpLink::MakeChannel(const ChannelId& id,
                                                     bool sends) {
  return channels_.maker->Make(
      {.id = id,
       .sends = sends,
       .name = absl::StrCat("edge ", spec_.identity.edge, ", generation ",
                            connection_.identity.generation, ", ",
                            sends ? "outgoing" : "incoming"),
       .timeout = channels_.timeout,
       .over = [this] { return over_ || socket_.PeerClosed(); },
       .stuck = channels_.stuck});
}

void TcpLink::WriteLoop(const Positions& received) {
  const absl::Status wrote = Guarded([&] { return Write(received); });
  if (!wrote.ok()) Break(wrote);
}

void TcpLink::ReadLoop() {
  const absl::Status read = Guarded([&] { return Read(); });
  if (!read.ok()) Break(read);
}

}  // namespace gimbal::worker

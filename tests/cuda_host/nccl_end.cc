#include "tests/cuda_host/nccl_end.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/memory.h"

namespace gimbal::cuda_host {
namespace {

constexpr int kLookMs = 5;

// Abstract, so nothing is left behind.
socklen_t AddressOf(const std::string& name, sockaddr_un* address) {
  *address = {.sun_family = AF_UNIX};
  std::memcpy(address->sun_path + 1, name.data(),
              std::min(name.size(), sizeof address->sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

}  // namespace

bool TakeNcclFault(const char* name) {
  const char* folder = std::getenv("GIMBAL_NCCL_HOST_FAULTS");
  return folder != nullptr &&
         unlink((std::string(folder) + "/" + name).c_str()) == 0;
}

NcclEnd::NcclEnd(int rank, const std::string& name, int listener, int device)
    : rank_(rank),
      name_(name),
      device_(device),
      listener_(listener),
      random_(std::hash<std::string>()(name) + static_cast<unsigned>(rank)) {
  thread_ = std::thread([this] { Loop(); });
}

NcclEnd::~NcclEnd() { Abort(); }

std::string NcclEnd::last_error() const {
  std::lock_guard lock(mutex_);
  return last_error_;
}

void NcclEnd::Post(std::shared_ptr<Transfer> transfer) {
  std::lock_guard lock(mutex_);
  if (aborted_) {
    transfer->done = true;
    return;
  }
  posted_.push_back(std::move(transfer));
  changed_.notify_all();
}

void NcclEnd::Abort() {
  {
    std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
  if (socket_ >= 0) close(std::exchange(socket_, -1));
  for (const auto& transfer : posted_) transfer->done = true;
  posted_.clear();
  Device::Get().Wake();
}

void NcclEnd::Loop() {
  AllowDeviceMemory(true);
  bool goes_on = Join() && Meet();
  if (goes_on) state_ = ncclSuccess;
  std::unique_lock lock(mutex_);
  while (!aborted_) {
    changed_.wait(lock,
                  [&] { return aborted_ || (goes_on && !posted_.empty()); });
    if (aborted_) return;
    const std::shared_ptr<Transfer> transfer = posted_.front();
    lock.unlock();
    goes_on = Execute(*transfer);
    if (goes_on) transfer->done = true;
    if (goes_on) Device::Get().Wake();
    lock.lock();
    if (goes_on) posted_.pop_front();
  }
}

bool NcclEnd::Join() {
  Dawdle();
  if (TakeNcclFault("init")) return false;
  if (rank_ == 0) {
    if (!Await(listener_, POLLIN)) return false;
    socket_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    return socket_ >= 0;
  }
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t size = AddressOf(name_, &address);
  // Where nobody listens any more nobody will.
  return connect(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0;
}

bool NcclEnd::Meet() {
  int other = -1;
  if (!Write(&device_, sizeof device_) || !Read(&other, sizeof other)) {
    return false;
  }
  return other != device_ ||
         Fail(ncclInvalidUsage, "Duplicate GPU detected: both ranks are on " +
                                    std::to_string(device_));
}

bool NcclEnd::Execute(const Transfer& transfer) {
  Dawdle();
  if (TakeNcclFault("silence")) return false;
  if (TakeNcclFault("error")) {
    return Fail(ncclRemoteError, "a fault that was asked for");
  }
  if (TakeNcclFault("gone")) {
    shutdown(socket_, SHUT_RDWR);
    return false;
  }
  size_t bytes = transfer.bytes;
  if (!transfer.sends) {
    return Write(&bytes, sizeof bytes) && Read(transfer.data, transfer.bytes);
  }
  if (!Read(&bytes, sizeof bytes)) return false;
  if (bytes != transfer.bytes) {
    return Fail(ncclInvalidUsage, "the peer receives " + std::to_string(bytes) +
                                      " bytes of " +
                                      std::to_string(transfer.bytes));
  }
  return Write(transfer.data, transfer.bytes);
}

bool NcclEnd::Await(int fd, short events) {
  pollfd poll_fd{.fd = fd, .events = events};
  while (!aborted_) {
    if (poll(&poll_fd, 1, kLookMs) > 0) return true;
  }
  return false;
}

bool NcclEnd::Write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    if (!Await(socket_, POLLOUT)) return false;
    const ssize_t n = send(socket_, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) return false;
    if (n < 0) continue;
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool NcclEnd::Read(void* data, size_t bytes) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    if (!Await(socket_, POLLIN)) return false;
    const ssize_t n = recv(socket_, to, bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n < 0) continue;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool NcclEnd::Fail(ncclResult_t state, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    last_error_ = why;
  }
  state_ = state;
  return false;
}

void NcclEnd::Dawdle() {
  if (random_.Below(2) == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_.Below(300)));
}

}  // namespace gimbal::cuda_host

// What carries the boundary tensors of one direction of an edge from device to
// device, beside the connection that carries everything else. Each connection
// has channels of its own, one per direction, so what one peer does to its end
// is felt by no other edge.
//
// The ends take turns by the connection alone: who sends has said so there and
// has room at the peer, so both are there at once and every transfer may have a
// deadline (worker/transport/tcp_link.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::worker {

// What both ends of a channel know it by. The sender makes it.
using ChannelId = std::string;
constexpr size_t kChannelIdBytes = 128;

struct ChannelOptions {
  ChannelId id;
  bool sends = false;
  std::string name;  // for errors
  std::chrono::milliseconds timeout{30000};
  // Whether the connection is over, or the peer has left it: ends every wait.
  // Asked again and again, by whoever waits.
  std::function<bool()> over;
  // A call into a library does not return; the text says which. What it holds
  // cannot be had back but by the end of the process.
  std::function<void(const std::string&)> stuck;
};

// One thread makes it, uses it and destroys it.
class PayloadChannel {
 public:
  virtual ~PayloadChannel() = default;

  // Waits for the other end. Errors, here and below: UNAVAILABLE when the
  // connection is over or the peer's end failed, DEADLINE_EXCEEDED after the
  // timeout. After one the channel can only be destroyed.
  virtual absl::Status Open() = 0;
  // Sends what lies at `payload`, or receives it; done when it returns. After
  // an error no device touches the payload any more either.
  virtual absl::Status Transfer(std::byte* payload, int64_t bytes) = 0;
};

// Thread-safe. Lives as long as the process.
class PayloadChannels {
 public:
  virtual ~PayloadChannels() = default;

  virtual absl::StatusOr<ChannelId> NewId() = 0;
  virtual std::unique_ptr<PayloadChannel> Make(
      const ChannelOptions& options) = 0;
};

}  // namespace gimbal::worker

// Channels between GPUs of different processes over NCCL
// (common/adr/2026-11-30-nccl-links.md).
//
// A channel is a communicator of two ranks: 0 sends, 1 receives. It is made
// without blocking, and every wait asks for its asynchronous errors, whether
// the connection is over and whether the deadline has passed. What fails is
// aborted at once by the thread that noticed it; a call that does not return is
// told to ChannelOptions::stuck.
#pragma once

#include <memory>
#include <string>

#include "worker/transport/payload_channel.h"

namespace gimbal::worker {

struct Nccl {
  int version = 0;      // as NCCL counts them; 0: none
  std::string missing;  // why
};

// The library of this process. Searches once. Thread-safe.
const Nccl& FindNccl();

// Channels that end at this device. Requires a version.
std::unique_ptr<PayloadChannels> MakeNcclChannels(int device);

}  // namespace gimbal::worker

// What a back end offers to the links between its stages.
#pragma once

#include <string>

#include "worker/compute/memory.h"
#include "worker/transport/payload_channel.h"

namespace gimbal::worker {

struct DeviceLinks {
  // Of boundary tensors, where the engine takes and leaves them.
  compute::Memory* tensors = &compute::HeapMemory();
  // Of the host, for what passes through it.
  compute::Memory* host = &compute::HeapMemory();
  std::string gpu;       // identity, the same for every process; empty: none
  int nccl_version = 0;  // as NCCL counts them; 0: none
  std::string nccl_missing;             // why
  PayloadChannels* channels = nullptr;  // with nccl_version
};

}  // namespace gimbal::worker

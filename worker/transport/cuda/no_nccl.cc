// For a toolkit without nccl.h.
#include "worker/transport/cuda/nccl_channels.h"

namespace gimbal::worker {

const Nccl& FindNccl() {
  static const Nccl nccl{
      .missing = "no NCCL: libgimbal_cuda.so was built without nccl.h"};
  return nccl;
}

std::unique_ptr<PayloadChannels> MakeNcclChannels(int /*device*/) {
  return nullptr;
}

}  // namespace gimbal::worker

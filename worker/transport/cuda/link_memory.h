// Memory of links and snapshots on CUDA. Thread-safe, as compute::Memory.
#pragma once

#include "worker/compute/memory.h"

namespace gimbal::worker {

// Of the current device, for boundary tensors. Copies run in a stream of their
// own per direction, beside everything else.
compute::Memory& CudaLinkMemory();

// Page-locked memory of the host, which a device reaches without a detour.
// Locking takes long, so what is freed stays locked for the next one who asks
// for as much, until somebody asks for something else.
compute::Memory& PinnedMemory();

}  // namespace gimbal::worker

// What the entry points of the runtime share.
#pragma once

#include "tests/cuda_host/include/cuda_runtime_api.h"

namespace gimbal::cuda_host {

// The devices that the process sees: GIMBAL_CUDA_HOST_DEVICES of them, or one;
// less if CUDA_VISIBLE_DEVICES lists numbers.
int DeviceCount();
// The number among all devices of the one that the process calls `device`.
int PhysicalDevice(int device);

// The calling thread's choice.
int CurrentDevice();

// Keeps an error for cudaGetLastError of this thread, and returns it.
cudaError_t Remember(cudaError_t error);

}  // namespace gimbal::cuda_host

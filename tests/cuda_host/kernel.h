// A launched kernel as an operation of a stream.
#pragma once

#include <functional>
#include <memory>

#include "tests/cuda_host/include/cuda_runtime_api.h"
#include "tests/cuda_host/operation.h"

namespace gimbal::cuda_host {

struct KernelLaunch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  const void* kernel = nullptr;
  std::function<void()> thread;
};

// Executes the blocks in an order of its own, a few at each step.
MakeOperation LaunchOperation(std::shared_ptr<const KernelLaunch> launch);

// Whether a device could launch it: sizes, and dynamic shared memory that was
// allowed for the kernel.
cudaError_t CheckLaunch(const KernelLaunch& launch);

}  // namespace gimbal::cuda_host

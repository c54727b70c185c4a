// The one way to start a kernel. Everything goes through cudaLaunchKernelEx, so
// that the sources are C++ without extensions to its grammar: the tests compile
// them with the host's compiler and run them on the CPU.
//
//   Launch(Add<float>, grid, block, 0, stream, n, x, y);
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "worker/compute/cuda/check.h"

namespace gimbal::compute::cuda {

// Arguments convert to the kernel's parameters as in a call. `shared_bytes`:
// dynamic shared memory, at most 48 KiB. Throws CudaError.
template <typename... Params>
void Launch(void (*kernel)(Params...), dim3 grid, dim3 block,
            size_t shared_bytes, cudaStream_t stream,
            std::type_identity_t<Params>... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  GIMBAL_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}

}  // namespace gimbal::compute::cuda

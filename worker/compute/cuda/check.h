// Errors of the CUDA libraries as exceptions: they come up in the middle of a
// stage's work and none of them can be mended there. Memory that is not there
// is std::bad_alloc, as on the host; everything else a CudaError.
//
//   GIMBAL_CUDA_CHECK(cudaStreamCreate(&stream));
#pragma once

#include <cuda_runtime.h>

#include <new>
#include <stdexcept>
#include <string>

namespace gimbal::compute::cuda {

class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void Fail(const char* what, const char* file, int line,
                              const std::string& why) {
  throw CudaError("CUDA failed at " + std::string(file) + ":" +
                  std::to_string(line) + ": " + what + ": " + why);
}

inline void Check(cudaError_t error, const char* what, const char* file,
                  int line) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) {
    // Not sticky; else the next launch would report it again.
    static_cast<void>(cudaGetLastError());
    throw std::bad_alloc();
  }
  Fail(what, file, line, cudaGetErrorString(error));
}

}  // namespace gimbal::compute::cuda

#define GIMBAL_CUDA_CHECK(call) \
  ::gimbal::compute::cuda::Check((call), #call, __FILE__, __LINE__)

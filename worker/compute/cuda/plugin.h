// The C interface between a program and libgimbal_cuda.so.
#pragma once

extern "C" {

// Number of CUDA devices; writes one line about them, or why there are none,
// into `text` (at most `size` bytes, terminated).
typedef int (*GimbalCudaDescribe)(char* text, int size);

int gimbal_cuda_describe(char* text, int size);

}  // extern "C"

inline constexpr char kGimbalCudaDescribe[] = "gimbal_cuda_describe";

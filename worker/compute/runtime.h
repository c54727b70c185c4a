// Process- and thread-wide settings that the numbers depend on.
#pragma once

#include <string>

namespace gimbal::compute {

// Threads that OpenBLAS uses per GEMM, for the whole process. Call it once, at
// start: the last bits of a GEMM depend on it. Kernels of our own use one.
void SetThreads(int threads);

// To be called once by every thread that runs forwards, backwards or updates:
// denormal numbers become zero (FTZ and DAZ), which keeps decaying moments from
// slowing arithmetic down a hundredfold. Numbers of threads that have and have
// not called it may differ.
void PrepareComputeThread();

// What the last bits depend on besides config and data: BLAS version, BLAS
// core, instruction set. The same for the life of the process: the number of
// threads is not in it, because the config has that (cluster.threads). Two runs
// of one config with equal tags agree bit for bit.
std::string NumericsTag();

}  // namespace gimbal::compute

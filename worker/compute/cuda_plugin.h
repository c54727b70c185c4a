// Looks for CUDA without needing it: the driver first, then libgimbal_cuda.so
// beside the program (preset `cuda`), then the devices it sees. A program built
// anywhere starts everywhere.
#pragma once

#include <string>

namespace gimbal::compute {

struct CudaSearch {
  int devices = 0;
  // One line for people: what was found, or what is missing.
  std::string text;
};

// Searches once; the same answer afterwards. Thread-safe.
const CudaSearch& FindCuda();

}  // namespace gimbal::compute

// What the symbol table of a program or library says about its kernels.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gimbal::cuda_host {

struct KernelSymbols {
  // As in the source; its address when the file has been stripped.
  std::string name;
  // Its __shared__ variables, other than those of functions that it calls.
  std::vector<std::span<char>> shared;
};

// Looked up once per kernel; the answer stays. Thread-safe.
const KernelSymbols& SymbolsOf(const void* kernel);

}  // namespace gimbal::cuda_host

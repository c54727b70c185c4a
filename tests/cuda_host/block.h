// One block of a kernel at a time, its threads as fibres of the calling thread.
//
// A thread runs until it waits at a barrier or for its warp; which one goes on
// then is drawn among all that can, those not begun included. So an order that
// the kernel does not force is sooner or later not kept. Threads that never
// wait run one after the other on one stack.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda_host/include/vector_types.h"
#include "tests/cuda_host/random.h"

namespace gimbal::cuda_host {

// The most that a block may have of dynamic shared memory, in bytes, as on a
// device of compute capability 9.0.
inline constexpr size_t kMaxSharedBytes = 227 << 10;

// At most one object per process may run a block at a time: the kernel's place
// in the grid is a global variable.
class BlockRunner {
 public:
  explicit BlockRunner(Random& random);
  ~BlockRunner();

  // Runs all threads of block `index`; each calls `thread`. Dynamic shared
  // memory and the `shared` variables begin as NaNs. Returns what is wrong with
  // the kernel, or nothing: a deadlock, a warp operation that does not fit
  // together, a trap.
  std::string Run(const dim3& grid, const dim3& block, const uint3& index,
                  size_t shared_bytes, const std::function<void()>& thread,
                  const std::vector<std::span<char>>& shared);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::cuda_host

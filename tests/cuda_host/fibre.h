// Stacks, and the switch between them, for code that runs in turns on one
// thread. x86-64 only.
#pragma once

#include <cstddef>
#include <vector>

namespace gimbal::cuda_host {

// Where a piece of code was left: its stack pointer, and what AddressSanitizer
// wants to know of it.
struct Fibre {
  void* stack_pointer = nullptr;
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
};

// Leaves `from` and goes on with `to`. `ends`: `from` is never resumed.
void Switch(Fibre& from, Fibre& to, bool ends = false);

// To be called first on a new stack.
void Arrived();

// Stacks are made when they are needed and kept. Each ends in a page that
// cannot be touched. Not thread-safe.
class FibreStacks {
 public:
  FibreStacks() = default;
  FibreStacks(const FibreStacks&) = delete;
  FibreStacks& operator=(const FibreStacks&) = delete;
  ~FibreStacks();

  // A fibre that calls `entry`, which must not return.
  Fibre Take(void (*entry)());
  // Gives the stack back, possibly the one that runs: until it is left for good
  // no other may be taken.
  void Release(const Fibre& fibre);

 private:
  std::vector<void*> all_;
  std::vector<void*> free_;
};

}  // namespace gimbal::cuda_host

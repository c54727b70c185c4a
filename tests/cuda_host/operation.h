// What a stream executes, one after the other.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "tests/cuda_host/random.h"

namespace gimbal::cuda_host {

class Operation {
 public:
  virtual ~Operation() = default;

  // Whether Step would get on. Called with the device locked.
  virtual bool Ready() const { return true; }
  // Does a part of the work, on the device's thread; true when all is done.
  virtual bool Step(Random& random) = 0;
  // What went wrong, which ends the device; empty if nothing did.
  virtual std::string Error() const { return {}; }
};

// Makes the operation anew each time a graph that captured it is launched.
using MakeOperation = std::function<std::unique_ptr<Operation>()>;

// The end of an operation, and of all that came before it in its stream.
// Guarded by the device's lock but for `done`.
struct Completion {
  std::atomic<bool> done = false;
  std::chrono::steady_clock::time_point time;
};
using CompletionPtr = std::shared_ptr<Completion>;

// Calls `work` once.
MakeOperation Once(std::function<void()> work);
// The same for work that may fail, and then says why.
MakeOperation OnceChecked(std::function<std::string()> work);
// The same for a function of the host, which must not touch device memory or
// call the runtime.
MakeOperation OnceOnHost(std::function<void()> work);
// Waits for another stream.
MakeOperation After(CompletionPtr completion);
// Marks a place in a stream.
MakeOperation Nothing();

// True on the device's thread while a function of the host runs there.
bool InHostFunction();

}  // namespace gimbal::cuda_host

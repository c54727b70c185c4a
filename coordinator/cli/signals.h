// Signals as a queue that one loop reads, in place of handlers. Make it before
// the process has other threads: they inherit the blocked mask.
#pragma once

#include <signal.h>

#include <chrono>

namespace gimbal::cli {

class SignalQueue {
 public:
  // Blocks INT, TERM, HUP, USR1, USR2 and CHLD.
  SignalQueue();
  // The next signal, waiting up to `timeout` for it; 0 when none came. CHLD
  // only wakes the caller up early.
  int Wait(std::chrono::milliseconds timeout) const;

 private:
  sigset_t set_;
};

// All but CHLD: somebody, or a scheduler that is about to end the job, wants the
// program to end.
bool IsStop(int signal);

}  // namespace gimbal::cli

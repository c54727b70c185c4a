#include "coordinator/cli/signals.h"

#include <ctime>

namespace gimbal::cli {

SignalQueue::SignalQueue() {
  sigemptyset(&set_);
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) {
    sigaddset(&set_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

int SignalQueue::Wait(std::chrono::milliseconds timeout) const {
  timespec wait = {};
  wait.tv_sec = timeout.count() / 1000;
  wait.tv_nsec = timeout.count() % 1000 * 1000000;
  const int signal = sigtimedwait(&set_, nullptr, &wait);
  return signal > 0 ? signal : 0;
}

bool IsStop(int signal) { return signal != 0 && signal != SIGCHLD; }

}  // namespace gimbal::cli

// A child process that cannot outlive the thread that started it: the kernel
// kills it with that thread (PR_SET_PDEATHSIG), so start children on the main
// thread. It leads a process group of its own, so that ^C at the terminal
// reaches the launcher alone, which then ends the run in order.
//
//   GIMBAL_ASSIGN_OR_RETURN(ChildProcess child,
//                           ChildProcess::Start({path, "--flag"}, log_path));
//   child.Signal(SIGTERM);
//   while (!child.Poll()) ...;
//
// Not thread-safe.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::cli {

class ChildProcess {
 public:
  // Runs argv[0] (a path) with `input` as standard input, which it may also
  // open as /dev/stdin, and both outputs appended to `log_path`. A program that
  // cannot be executed exits with 127.
  static absl::StatusOr<ChildProcess> Start(
      const std::vector<std::string>& argv, const std::string& log_path,
      const std::string& input = "");

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Kills it when it still runs.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Exit code once it has ended, 128 + N when signal N killed it.
  std::optional<int> Poll();
  // No effect after the end.
  void Signal(int signal);
  // SIGKILL, and waits for the end.
  void Kill();

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace gimbal::cli

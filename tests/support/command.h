// Runs programs in tests: each in a process group of its own, so that the whole
// cluster it starts can be killed at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace gimbal::test_support {

struct CommandResult {
  int exit_code = -1;  // 128 + N when signal N ended it
  std::string output;  // standard output and error together
};

// A program that is running. Killed with its group at the end of its scope.
class Command {
 public:
  // argv[0] is a path, or the name of one of the project's binaries.
  explicit Command(const std::vector<std::string>& argv);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  // False once it has ended, though nobody has waited for it.
  bool Running();
  // Waits for the end; kills the group after `timeout` (exit code 137).
  CommandResult Wait(std::chrono::seconds timeout);
  // To the program alone.
  void Signal(int signal) const;
  // SIGKILL to the program and to all it has started that stayed in a process
  // group whose leader is a child of it.
  void KillAll() const;

 private:
  pid_t pid_ = -1;
  std::string output_file_;
  std::optional<int> exit_code_;
};

CommandResult Run(const std::vector<std::string>& argv,
                  std::chrono::seconds timeout = std::chrono::seconds(120));

// Path of one of the project's binaries.
std::string BinaryPath(const std::string& name);

}  // namespace gimbal::test_support

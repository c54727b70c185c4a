#include "tests/support/command.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace gimbal::test_support {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Children of a process, from /proc.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  DIR* proc = opendir("/proc");
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    const std::string stat = ReadText("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 1));
    std::string state;
    pid_t ppid = 0;
    rest >> state >> ppid;
    if (ppid == parent) children.push_back(pid);
  }
  closedir(proc);
  return children;
}

}  // namespace

std::string BinaryPath(const std::string& name) {
  const char* folder = std::getenv("GIMBAL_BIN_DIR");
  return std::string(folder != nullptr ? folder : ".") + "/" + name;
}

Command::Command(const std::vector<std::string>& argv) {
  char name[] = "/tmp/gimbal-command-XXXXXX";
  const int out = mkstemp(name);
  output_file_ = name;
  std::vector<std::string> args = argv;
  if (args[0].find('/') == std::string::npos) args[0] = BinaryPath(args[0]);
  std::vector<char*> raw;
  for (std::string& arg : args) raw.push_back(arg.data());
  raw.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(raw[0], raw.data());
    _exit(127);
  }
  close(out);
}

Command::~Command() {
  if (!exit_code_) {
    KillAll();
    waitpid(pid_, nullptr, 0);
  }
  unlink(output_file_.c_str());
}

bool Command::Running() {
  int status = 0;
  if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = ExitCode(status);
  }
  return !exit_code_;
}

CommandResult Command::Wait(std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (Running()) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "took longer than " << timeout.count() << " s";
      KillAll();
      int status = 0;
      waitpid(pid_, &status, 0);
      exit_code_ = ExitCode(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {*exit_code_, ReadText(output_file_)};
}

void Command::Signal(int signal) const { kill(pid_, signal); }

void Command::KillAll() const {
  const std::vector<pid_t> children = ChildrenOf(pid_);
  kill(-pid_, SIGKILL);
  for (const pid_t child : children) kill(child, SIGKILL);
}

CommandResult Run(const std::vector<std::string>& argv,
                  std::chrono::seconds timeout) {
  return Command(argv).Wait(timeout);
}

}  // namespace gimbal::test_support

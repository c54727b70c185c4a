#include "coordinator/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/unique_fd.h"

namespace gimbal::cli {
namespace {

// Runs in the child of a process that may have threads: only
// async-signal-safe calls, no allocation.
[[noreturn]] void Exec(char* const* argv, int log, int input, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(input, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(argv[0], argv);
  _exit(127);
}

// A file in memory that stands at its beginning: unlike a pipe it takes any
// size before somebody reads.
absl::StatusOr<io::UniqueFd> MemoryFile(const std::string& content) {
  io::UniqueFd fd(memfd_create("input", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(content.size());
  if (!fd.valid() || write(fd.get(), content.data(), content.size()) != size ||
      lseek(fd.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot keep a program's input");
  }
  return fd;
}

int ExitCode(int wait_status) {
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(
    const std::vector<std::string>& argv, const std::string& log_path,
    const std::string& input) {
  if (access(argv[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(
        argv[0], ": not an executable file (", std::strerror(errno),
        "); the programs of one build stay in one folder"));
  }
  GIMBAL_ASSIGN_OR_RETURN(const io::UniqueFd in, MemoryFile(input));
  const io::UniqueFd log(
      open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(log_path, ": cannot open: ", std::strerror(errno)));
  }
  std::vector<char*> raw;
  for (const std::string& arg : argv) {
    raw.push_back(const_cast<char*>(arg.c_str()));
  }
  raw.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(raw.data(), log.get(), in.get(), parent);
  const int fork_errno = errno;
  if (pid < 0) {
    return absl::InternalError(absl::StrCat("cannot start ", argv[0], ": ",
                                            std::strerror(fork_errno)));
  }
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_code_(std::exchange(other.exit_code_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    exit_code_ = std::exchange(other.exit_code_, std::nullopt);
  }
  return *this;
}

ChildProcess::~ChildProcess() { Kill(); }

std::optional<int> ChildProcess::Poll() {
  if (exit_code_ || pid_ < 0) return exit_code_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) exit_code_ = ExitCode(status);
  return exit_code_;
}

void ChildProcess::Signal(int signal) {
  if (pid_ > 0 && !Poll()) kill(pid_, signal);
}

void ChildProcess::Kill() {
  if (pid_ < 0 || Poll()) return;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = ExitCode(status);
}

}  // namespace gimbal::cli

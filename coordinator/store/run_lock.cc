#include "coordinator/store/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace gimbal::coordinator {

absl::StatusOr<RunLock> RunLock::Take(const std::string& run_dir) {
  const std::string path = run_dir + "/coordinator.lock";
  RunLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.fd_.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    char pid[32] = {};
    const ssize_t length = pread(lock.fd_.get(), pid, sizeof(pid) - 1, 0);
    return absl::AlreadyExistsError(absl::StrCat(
        run_dir, ": a coordinator with pid ", length > 0 ? pid : "unknown",
        " already runs this folder; stop it "
        "first, or choose another folder"));
  }
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(lock.fd_.get(), 0) != 0 ||
      pwrite(lock.fd_.get(), pid.data(), pid.size(), 0) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  return lock;
}

}  // namespace gimbal::coordinator

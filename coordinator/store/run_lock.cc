#include "coordinator/store/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace gimbal::coordinator {

namespace {

std::string LockPath(const std::string& run_dir) {
  return run_dir + "/coordinator.lock";
}

}  // namespace

absl::StatusOr<RunLock> RunLock::Take(const std::string& run_dir) {
  const std::string path = LockPath(run_dir);
  RunLock lock(run_dir, open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
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

absl::Status RunLock::CheckInPlace() const {
  struct stat there = {}, held = {};
  const bool found = stat(LockPath(run_dir_).c_str(), &there) == 0;
  // Of a file system that does not answer for a while nothing is concluded.
  if (!found && errno != ENOENT) return absl::OkStatus();
  if (found && fstat(fd_.get(), &held) == 0 && there.st_ino == held.st_ino &&
      there.st_dev == held.st_dev) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat(LockPath(run_dir_),
                   ": is not the file that was locked; the run folder was "
                   "deleted or moved while the run went on"));
}

}  // namespace gimbal::coordinator

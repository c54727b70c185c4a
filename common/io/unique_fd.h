// A file descriptor that closes itself. Not thread-safe.
#pragma once

#include <unistd.h>

#include <utility>

namespace gimbal::io {

class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Close(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // False, with errno, when the system reports a late write error. Closing
  // nothing is true.
  bool Close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || close(fd) == 0;
  }

 private:
  int fd_;
};

}  // namespace gimbal::io

// What the targets share.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

// Ends the target with a finding unless the condition holds.
#define FUZZ_CHECK(condition)                                              \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

namespace gimbal::fuzz {

// A file in memory with the input, and its path.
class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size)
      : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    FUZZ_CHECK(write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  ~InputFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace gimbal::fuzz

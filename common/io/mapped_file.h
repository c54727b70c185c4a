// A regular file mapped read-only into memory. Thread-safe once open. The file
// must not be shortened while it is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace gimbal::io {

class MappedFile {
 public:
  // Errors name the path and the system's reason.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile(std::string path, const uint8_t* data, size_t size);
  void Unmap();

  std::string path_;
  const uint8_t* data_;  // null for an empty file
  size_t size_;
};

}  // namespace gimbal::io

// Reads and writes the safetensors format (8-byte little-endian header length,
// JSON header, raw little-endian data), fp32 tensors only so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::io {

struct TensorView {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;  // product(shape) elements, row-major
};

// Result of a write, for the checkpoint's manifest.
struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;  // lower-case hex of the file's content
};

// Takes the next bytes of a file; an error ends the writing.
using FileSink = std::function<absl::Status(const void* data, size_t bytes)>;

// Hands the file's bytes to `sink`, a MiB at a time at most. Tensors appear in
// the file in the order given; `metadata` goes to "__metadata__". Errors of the
// tensors name `path`.
absl::StatusOr<WrittenFile> FormatSafetensors(
    const std::string& path, std::span<const TensorView> tensors,
    const std::map<std::string, std::string>& metadata, const FileSink& sink);

// FormatSafetensors to PATH.tmp; then syncs and renames: the file is whole or
// not there. Creates the parent folder. Errors name the path and the system's
// reason. `may_write`, if given, is asked once all is written: an error of it
// leaves things as they were.
absl::StatusOr<WrittenFile> WriteSafetensors(
    const std::string& path, std::span<const TensorView> tensors,
    const std::map<std::string, std::string>& metadata,
    const std::function<absl::Status()>& may_write = {});

// A file mapped into memory, or held there. Every offset is checked against the
// file's size before use; a malformed file is INVALID_ARGUMENT with the path
// and what is wrong, never a crash.
class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  // Of a file's content; `path` stands for it in errors.
  static absl::StatusOr<SafetensorsFile> FromContent(std::string path,
                                                     std::string content);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  std::vector<std::string> names() const;  // in file order
  const std::map<std::string, std::string>& metadata() const;
  // Copies a tensor out; NOT_FOUND, or INVALID_ARGUMENT when the shape differs.
  absl::Status Read(const std::string& name, std::span<const int64_t> shape,
                    float* out) const;

 private:
  struct Impl;
  static absl::StatusOr<SafetensorsFile> Parse(std::unique_ptr<Impl> impl);
  explicit SafetensorsFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::io

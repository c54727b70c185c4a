// The JSON header of a safetensors file, apart from the file itself. Internal
// to common/io; errors do not name the path, the caller adds it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/safetensors.h"

namespace gimbal::io {

struct TensorEntry {
  std::string name;
  std::vector<int64_t> shape;
  // Bytes [begin, end) of the data section.
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Bytes of an fp32 tensor; an error for a negative or too large size.
absl::StatusOr<uint64_t> TensorBytes(std::span<const int64_t> shape);

// "[2, 3]", for messages.
std::string ShapeText(std::span<const int64_t> shape);

// Requires of the tensors that they fill `data_bytes` without gap or overlap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         uint64_t data_bytes);

// Header for tensors laid out one after the other, padded with spaces so that
// the data section starts at a multiple of 8 bytes in the file.
absl::StatusOr<std::string> FormatSafetensorsHeader(
    std::span<const TensorView> tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace gimbal::io

// Texts of single values -> numbers, strictly: the whole text, in decimal, in
// range, finite. Internal to common/config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gimbal::config {

std::optional<int32_t> ReadInt32(const std::string& text);
std::optional<int64_t> ReadInt64(const std::string& text);
std::optional<uint64_t> ReadUint64(const std::string& text);
std::optional<double> ReadDouble(const std::string& text);
std::optional<bool> ReadBool(const std::string& text);

struct DurationParts {
  int64_t seconds = 0;
  int32_t nanos = 0;
};
// "3s", "500ms", "1h30m"; not negative, below 10,000 years.
std::optional<DurationParts> ReadDuration(const std::string& text);

// Valid UTF-8 without control characters: what a path or name may hold, and
// what comes back unchanged from a YAML file.
bool IsPrintableUtf8(const std::string& text);

}  // namespace gimbal::config

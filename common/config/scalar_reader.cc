#include "common/config/scalar_reader.h"

#include <charconv>
#include <cmath>

#include "absl/time/time.h"

namespace gimbal::config {
namespace {

template <typename T>
std::optional<T> ReadWhole(const std::string& text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// Bytes of the UTF-8 sequence that starts at `s`, or 0 when it is malformed,
// overlong, a surrogate or beyond U+10FFFF (RFC 3629).
size_t SequenceLength(const unsigned char* s, size_t rest) {
  if (s[0] < 0x80) return 1;
  const size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4 || rest < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((s[i] & 0xC0) != 0x80) return 0;
  }
  const bool overlong =
      (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
  const bool surrogate = s[0] == 0xED && s[1] >= 0xA0;
  const bool beyond = s[0] == 0xF4 && s[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

std::optional<int32_t> ReadInt32(const std::string& text) {
  return ReadWhole<int32_t>(text);
}
std::optional<int64_t> ReadInt64(const std::string& text) {
  return ReadWhole<int64_t>(text);
}
std::optional<uint64_t> ReadUint64(const std::string& text) {
  return ReadWhole<uint64_t>(text);
}

std::optional<double> ReadDouble(const std::string& text) {
  const std::optional<double> value = ReadWhole<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return *value + 0.0;  // -0 becomes 0, so that equal configs are equal text
}

std::optional<bool> ReadBool(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<DurationParts> ReadDuration(const std::string& text) {
  // The range of google.protobuf.Duration.
  constexpr absl::Duration kEnd = absl::Seconds(315'576'000'000);
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      duration < absl::ZeroDuration() || duration >= kEnd) {
    return std::nullopt;
  }
  const int64_t seconds =
      absl::IDivDuration(duration, absl::Seconds(1), &duration);
  return DurationParts{
      .seconds = seconds,
      .nanos = static_cast<int32_t>(absl::ToInt64Nanoseconds(duration))};
}

bool IsPrintableUtf8(const std::string& text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(bytes + i, text.size() - i);
    if (length == 0) return false;
    if (bytes[i] < 0x20 || bytes[i] == 0x7F) return false;
    i += length;
  }
  return true;
}

}  // namespace gimbal::config

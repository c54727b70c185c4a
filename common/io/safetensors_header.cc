#include "common/io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace gimbal::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMetadataKey[] = "__metadata__";
constexpr char kDtype[] = "F32";

// The parsed object, with an error for text that is no JSON object or that
// names a tensor twice (which a JSON parser lets pass).
absl::StatusOr<Json> ParseObject(std::string_view text) {
  size_t keys = 0;
  const auto count_keys = [&keys](int depth, Json::parse_event_t event,
                                  const Json&) {
    keys += depth == 1 && event == Json::parse_event_t::key;
    return true;
  };
  Json json = Json::parse(text, count_keys, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  if (json.size() != keys) {
    return absl::InvalidArgumentError("the header has the same name twice");
  }
  return json;
}

// A list of numbers that all fit int64 and are not negative.
std::optional<std::vector<int64_t>> SizesOf(const Json& entry,
                                            const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Json& item : *found) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX) {
      return std::nullopt;
    }
    sizes.push_back(item.get<int64_t>());
  }
  return sizes;
}

absl::StatusOr<TensorEntry> ParseEntry(const std::string& name,
                                       const Json& entry) {
  const auto invalid = [&name](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, ": ", what...));
  };
  if (!entry.is_object()) return invalid("expected a JSON object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || *dtype != kDtype) {
    return invalid("dtype is ", dtype == entry.end() ? "absent" : dtype->dump(),
                   ", expected \"", kDtype, "\"");
  }
  auto shape = SizesOf(entry, "shape");
  if (!shape) return invalid("shape must be a list of sizes");
  const auto offsets = SizesOf(entry, "data_offsets");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return invalid("data_offsets must be [begin, end] with begin <= end");
  }
  const absl::StatusOr<uint64_t> bytes = TensorBytes(*shape);
  if (!bytes.ok()) return invalid(bytes.status().message());
  TensorEntry result{.name = name,
                     .shape = *std::move(shape),
                     .begin = static_cast<uint64_t>((*offsets)[0]),
                     .end = static_cast<uint64_t>((*offsets)[1])};
  if (result.end - result.begin != *bytes) {
    return invalid("data_offsets hold ", result.end - result.begin,
                   " bytes, shape ", ShapeText(result.shape), " needs ",
                   *bytes);
  }
  return result;
}

absl::StatusOr<std::map<std::string, std::string>> ParseMetadata(
    const Json& json) {
  std::map<std::string, std::string> metadata;
  const auto invalid = absl::InvalidArgumentError(
      absl::StrCat(kMetadataKey, ": expected an object of strings"));
  if (!json.is_object()) return invalid;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return invalid;
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// Sorts by position and refuses gaps, overlaps and a wrong end.
absl::Status CheckLayout(std::vector<TensorEntry>& tensors,
                         uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  uint64_t end = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.name, " begins at byte ", tensor.begin,
          " of the data, expected ", end, " (the end of the tensor before)"));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors need ", end, " bytes of data, the file has ",
                     data_bytes, end > data_bytes ? " (truncated?)" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> TensorBytes(std::span<const int64_t> shape) {
  int64_t bytes = sizeof(float);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("impossible shape ", ShapeText(shape)));
    }
  }
  return static_cast<uint64_t>(bytes);
}

std::string ShapeText(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         uint64_t data_bytes) {
  GIMBAL_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  SafetensorsHeader header;
  for (const auto& [name, value] : object.items()) {
    if (name == kMetadataKey) {
      GIMBAL_ASSIGN_OR_RETURN(header.metadata, ParseMetadata(value));
      continue;
    }
    GIMBAL_ASSIGN_OR_RETURN(TensorEntry entry, ParseEntry(name, value));
    header.tensors.push_back(std::move(entry));
  }
  GIMBAL_RETURN_IF_ERROR(CheckLayout(header.tensors, data_bytes));
  return header;
}

absl::StatusOr<std::string> FormatSafetensorsHeader(
    std::span<const TensorView> tensors,
    const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  uint64_t begin = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == kMetadataKey || json.contains(tensor.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor name used twice or reserved: ", tensor.name));
    }
    const absl::StatusOr<uint64_t> bytes = TensorBytes(tensor.shape);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, ": ", bytes.status().message()));
    }
    json[tensor.name] = {{"dtype", kDtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {begin, begin + *bytes}}};
    begin += *bytes;
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name or metadata is not UTF-8: ", error.what()));
  }
  // The header's length in front takes 8 bytes itself.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace gimbal::io

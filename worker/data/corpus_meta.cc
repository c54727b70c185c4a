#include "worker/data/corpus_meta.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::worker {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::pair<const char*, TokenType> kTypes[] = {
    {"u8", TokenType::kU8}, {"u16", TokenType::kU16}, {"u32", TokenType::kU32}};

// A count of at most int64; nothing when absent or anything else.
std::optional<int64_t> CountOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
    return std::nullopt;
  }
  return found->get<int64_t>();
}

std::optional<std::string> TextOf(const Json& json) {
  if (!json.is_string()) return std::nullopt;
  return json.get<std::string>();
}

absl::StatusOr<SplitMeta> ParseSplit(const std::string& name,
                                     const Json& json) {
  const auto invalid = [&name](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("splits.", name, ": expected ", what));
  };
  const std::optional<int64_t> tokens =
      json.is_object() ? CountOf(json, "tokens") : std::nullopt;
  if (!tokens) return invalid("{\"tokens\": N, \"files\": [...]}");
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array()) {
    return invalid("a list \"files\"");
  }
  SplitMeta split{.tokens = *tokens, .files = {}, .sha256 = {}};
  for (const Json& item : *files) {
    std::optional<std::string> file = TextOf(item);
    if (!file || file->empty() || file->find('/') != std::string::npos) {
      return invalid("plain file names in \"files\"");
    }
    split.files.push_back(*std::move(file));
  }
  for (const Json& item : json.value("sha256", Json::array())) {
    split.sha256.push_back(TextOf(item).value_or(""));
  }
  const auto is_hash = [](const std::string& hash) {
    return hash.size() == 64;
  };
  if (!split.sha256.empty() && (split.sha256.size() != split.files.size() ||
                                !std::ranges::all_of(split.sha256, is_hash))) {
    return invalid("one hash per file in \"sha256\"");
  }
  return split;
}

absl::StatusOr<CorpusMeta> Parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  if (CountOf(json, "format") != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected \"format\": ", kFormat, "; prepare the data again"));
  }
  CorpusMeta meta;
  const auto tokenizer = TextOf(json.value("tokenizer", Json()));
  const auto vocab = CountOf(json, "vocab");
  if (!tokenizer || !vocab) {
    return absl::InvalidArgumentError(
        "expected a text \"tokenizer\" and a number \"vocab\"");
  }
  meta.tokenizer = *tokenizer;
  meta.vocab = *vocab;
  const Json dtype = json.value("dtype", Json());
  const auto* type = std::ranges::find_if(
      kTypes, [&dtype](const auto& known) { return dtype == known.first; });
  if (type == std::end(kTypes)) {
    return absl::InvalidArgumentError("expected \"dtype\": u8, u16 or u32");
  }
  meta.dtype = type->second;
  const Json splits = json.value("splits", Json());
  if (!splits.is_object()) {
    return absl::InvalidArgumentError("expected an object \"splits\"");
  }
  for (const auto& [name, split] : splits.items()) {
    GIMBAL_ASSIGN_OR_RETURN(meta.splits[name], ParseSplit(name, split));
  }
  return meta;
}

}  // namespace

absl::StatusOr<CorpusMeta> ReadCorpusMeta(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kCorpusMetaFile);
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  absl::StatusOr<CorpusMeta> meta = Parse(text);
  if (!meta.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", meta.status().message()));
  }
  return meta;
}

std::string CorpusMetaText(const CorpusMeta& meta) {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["tokenizer"] = meta.tokenizer;
  json["vocab"] = meta.vocab;
  for (const auto& [text, type] : kTypes) {
    if (type == meta.dtype) json["dtype"] = text;
  }
  json["splits"] = nlohmann::ordered_json::object();
  for (const auto& [name, split] : meta.splits) {
    json["splits"][name] = {{"tokens", split.tokens}, {"files", split.files}};
    if (!split.sha256.empty()) json["splits"][name]["sha256"] = split.sha256;
  }
  return json.dump(2) + "\n";
}

}  // namespace gimbal::worker
